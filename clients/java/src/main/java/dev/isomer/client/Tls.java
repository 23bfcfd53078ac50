package dev.isomer.client;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.nio.file.Path;

/** TLS towards the server, by PEM files. */
public final class Tls {
  private Path authorities;
  private Path certificate;
  private Path privateKey;
  private String serverName;

  private Tls() {}

  /** TLS that trusts the system's authorities. */
  public static Tls system() {
    return new Tls();
  }

  /** TLS that trusts the authorities of a file. */
  public static Tls trusting(Path authorities) {
    Tls made = new Tls();
    made.authorities = authorities;
    return made;
  }

  /** The client's certificate chain and its key in PKCS #8 (mTLS). */
  public Tls certificate(Path chain, Path key) {
    this.certificate = chain;
    this.privateKey = key;
    return this;
  }

  /** The name expected in the server's certificate, in place of the address's host. */
  public Tls serverName(String name) {
    this.serverName = name;
    return this;
  }

  String serverName() {
    return serverName;
  }

  ChannelCredentials credentials() {
    TlsChannelCredentials.Builder made = TlsChannelCredentials.newBuilder();
    String field = "tls.ca";
    try {
      if (authorities != null) {
        made.trustManager(authorities.toFile());
      }
      field = "tls.certificate";
      if (certificate != null) {
        made.keyManager(certificate.toFile(), privateKey.toFile());
      }
      return made.build();
    } catch (IOException error) {
      throw IsomerException.invalid(
          field, "give PEM files that are there", field + " cannot be read: " + error.getMessage());
    }
  }
}

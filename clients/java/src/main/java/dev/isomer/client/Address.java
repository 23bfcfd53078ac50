package dev.isomer.client;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.Map;
import java.util.regex.Pattern;

/** Where a server is: what gRPC connects to, and whether with TLS. */
final class Address {
  static final String DEFAULT = "127.0.0.1:50051";

  private static final Map<String, Boolean> SCHEMES =
      Map.of("", false, "http", false, "grpc", false, "https", true, "grpcs", true);
  private static final Pattern LOOPBACK = Pattern.compile("127(\\.\\d{1,3}){3}");

  final String target;
  final boolean secure;
  private final String host;

  private Address(String target, boolean secure, String host) {
    this.target = target;
    this.secure = secure;
    this.host = host;
  }

  /** An address as a user writes it. */
  static Address of(String given, boolean tls) {
    String text = given.strip();
    URI parts;
    try {
      parts = new URI(text.contains("://") ? text : "none://" + text);
    } catch (URISyntaxException error) {
      throw bad(given, error.getReason());
    }
    String scheme = "none".equals(parts.getScheme()) ? "" : parts.getScheme();
    if (!SCHEMES.containsKey(scheme)) {
      throw bad(given, "there is no scheme `" + scheme + "`");
    }
    String path = parts.getPath() == null ? "" : parts.getPath();
    if (parts.getHost() == null
        || parts.getUserInfo() != null
        || !(path.isEmpty() || path.equals("/"))
        || parts.getQuery() != null
        || parts.getFragment() != null) {
      throw bad(given, "it has more or less than a host and a port");
    }
    if (tls && (scheme.equals("http") || scheme.equals("grpc"))) {
      throw bad(given, "it says plain text, and TLS is asked for");
    }
    boolean secure = tls || SCHEMES.get(scheme);
    if (parts.getPort() < 0 && !secure) {
      throw bad(given, "it has no port");
    }
    int port = parts.getPort() < 0 ? 443 : parts.getPort();
    if (port > 65535) {
      throw bad(given, "there is no port " + port);
    }
    return new Address(parts.getHost() + ":" + port, secure, parts.getHost());
  }

  private static IsomerException bad(String given, String why) {
    return IsomerException.invalid(
        "address",
        "write host:port, http://host:port, or https://host (with TLS, port 443 unless given)",
        "address `" + given + "` cannot be used: " + why);
  }

  boolean local() {
    return onThisMachine(host);
  }

  static boolean onThisMachine(String host) {
    return host != null
        && (host.equals("localhost") || host.equals("[::1]") || LOOPBACK.matcher(host).matches());
  }
}

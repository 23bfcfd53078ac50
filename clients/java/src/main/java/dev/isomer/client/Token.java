package dev.isomer.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/** A token of an identity provider. Without an end it is asked for again when it is refused. */
public final class Token {
  /** How long before its end a token is not sent any more. */
  private static final Duration MARGIN = Duration.ofSeconds(30);

  private final String value;
  private final Instant expiresAt;

  private Token(String value, Instant expiresAt) {
    this.value = value;
    this.expiresAt = expiresAt;
  }

  /** A token without an expiry time. */
  public static Token of(String value) {
    return new Token(value, null);
  }

  /** A token and when it ends. */
  public static Token of(String value, Instant expiresAt) {
    return new Token(value, expiresAt);
  }

  /** The token. */
  public String value() {
    return value;
  }

  /** When it ends. */
  public Optional<Instant> expiresAt() {
    return Optional.ofNullable(expiresAt);
  }

  boolean usable() {
    return expiresAt == null || Instant.now().isBefore(expiresAt.minus(MARGIN));
  }

  /** Without the token, for logs. */
  @Override
  public String toString() {
    return "Token(expires at " + expiresAt + ")";
  }
}

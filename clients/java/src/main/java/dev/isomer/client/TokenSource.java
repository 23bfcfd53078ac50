package dev.isomer.client;

/** Gives tokens when they are needed. Clients keep a token until it ends. */
@FunctionalInterface
public interface TokenSource {
  /** A token. An exception that it throws ends the call. */
  Token token();
}

package dev.isomer.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/**
 * How often a request is made again. A refusal with RetryInfo is waited out as the server asks. A
 * broken connection is tried again with growing pauses, and only for calls that may be made twice.
 * Everything else is final.
 */
public final class RetryPolicy {
  /** The default policy: 8 and 6 attempts, 200 ms to 20 s. */
  public static final RetryPolicy DEFAULT =
      new RetryPolicy(8, 6, Duration.ofMillis(200), Duration.ofSeconds(20));

  /** Every request is made once. */
  public static final RetryPolicy NONE = new RetryPolicy(1, 1, Duration.ZERO, Duration.ZERO);

  /**
   * The rpcs that must not be made twice. For all others a second one is the same as one: CreateRun
   * has a request_id, by which the server knows it again.
   */
  static final Set<String> ONCE =
      Set.of(
          "isomer.eval.v1.RunService/DeleteRun",
          "isomer.gateway.v1.ProviderService/CreateProvider",
          // With an etag a second one would find the first's change and be ABORTED.
          "isomer.gateway.v1.ProviderService/UpdateProvider",
          "isomer.gateway.v1.ProviderService/DeleteProvider",
          "isomer.gateway.v1.AccessService/CreateKey");

  private final int overloaded;
  private final int unreachable;
  private final Duration firstWait;
  private final Duration longestWait;

  /**
   * A policy.
   *
   * @param overloaded most attempts at a server that says when to come back
   * @param unreachable most attempts at a server that cannot be reached
   * @param firstWait before the second attempt; doubled from attempt to attempt
   * @param longestWait most between two attempts; a server that asks for longer is not asked again
   */
  public RetryPolicy(int overloaded, int unreachable, Duration firstWait, Duration longestWait) {
    this.overloaded = overloaded;
    this.unreachable = unreachable;
    this.firstWait = firstWait;
    this.longestWait = longestWait;
  }

  /**
   * The pause before the next attempt; none where the error is final.
   *
   * @param remaining the time left to the call, which the pause must not use up; null for no limit
   */
  Optional<Duration> wait(IsomerException error, int attempt, Duration remaining) {
    double doubled = firstWait.toNanos() * Math.pow(2, attempt - 1);
    Duration own = Duration.ofNanos((long) Math.min(doubled, longestWait.toNanos()));
    Status.Code code = error.code();
    Duration wait;
    if (error.retryAfter().isPresent()
        && (code == Status.Code.RESOURCE_EXHAUSTED || code == Status.Code.UNAVAILABLE)) {
      Duration asked = error.retryAfter().get();
      if (attempt >= overloaded || asked.compareTo(longestWait) > 0) {
        return Optional.empty();
      }
      wait = asked.compareTo(own) > 0 ? asked : own;
    } else if (!ONCE.contains(error.method())
        && (code == Status.Code.UNAVAILABLE || code == Status.Code.CANCELLED)) {
      if (attempt >= unreachable) {
        return Optional.empty();
      }
      // Between half and all of it, so that clients of one server do not come back together.
      double share = 0.5 + ThreadLocalRandom.current().nextDouble() / 2;
      wait = Duration.ofNanos((long) (own.toNanos() * share));
    } else {
      return Optional.empty();
    }
    return remaining == null || wait.compareTo(remaining) < 0
        ? Optional.of(wait)
        : Optional.empty();
  }
}

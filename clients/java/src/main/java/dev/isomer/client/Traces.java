package dev.isomer.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Carries the caller's trace on (W3C Trace Context), under a span id of each attempt's own. */
final class Traces implements ClientInterceptor {
  private static final Pattern FORM =
      Pattern.compile("([0-9a-f]{2})-([0-9a-f]{32})-[0-9a-f]{16}-([0-9a-f]{2}).*");
  private static final Metadata.Key<String> TRACEPARENT =
      Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);

  private final Supplier<String> current;

  Traces(Supplier<String> current) {
    this.current = current;
  }

  /** The header of a child of the span; null where there is none. */
  static String child(String parent) {
    Matcher parts = FORM.matcher(parent == null ? "" : parent);
    if (!parts.matches() || parts.group(2).chars().allMatch(digit -> digit == '0')) {
      return null;
    }
    long span = 0;
    while (span == 0) {
      span = ThreadLocalRandom.current().nextLong();
    }
    return String.format("00-%s-%016x-%s", parts.group(2), span, parts.group(3));
  }

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(
      MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
    return new ForwardingClientCall.SimpleForwardingClientCall<Q, R>(
        next.newCall(method, options)) {
      @Override
      public void start(Listener<R> listener, Metadata headers) {
        String child = child(current.get());
        if (child != null) {
          headers.discardAll(TRACEPARENT);
          headers.put(TRACEPARENT, child);
        }
        super.start(listener, headers);
      }
    };
  }
}

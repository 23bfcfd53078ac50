package dev.isomer.client;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.MoreExecutors;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.ForwardingClientCall;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * A channel to one server: one retry loop, several requests in flight on threads. A call ends with
 * the gRPC {@link Context} that it is made in.
 */
final class Transport implements AutoCloseable {
  private static final Metadata.Key<String> AUTHORIZATION = key("authorization");

  final IsomerClient.Builder settings;
  private final ManagedChannel channel;
  private final Channel headed;
  private final ExecutorService threads;
  private Token token;

  Transport(IsomerClient.Builder settings) {
    this.settings = settings;
    Address address = settings.check();
    ChannelCredentials credentials = InsecureChannelCredentials.create();
    if (address.secure) {
      credentials = (settings.tls == null ? Tls.system() : settings.tls).credentials();
    }
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(address.target, credentials)
            // Vectors take 4 bytes x rows x dimensions; gRPC's default is 4 MiB.
            .maxInboundMessageSize(Integer.MAX_VALUE)
            .userAgent("isomer-client-java/" + IsomerClient.VERSION)
            // A connection that died without a word is noticed while an answer is awaited.
            .keepAliveTime(30, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS)
            // Requests are made again here, where RetryInfo is read.
            .disableRetry();
    if (settings.tls != null && settings.tls.serverName() != null) {
      builder.overrideAuthority(settings.tls.serverName());
    }
    settings.channel.accept(builder);
    channel = builder.build();
    List<ClientInterceptor> interceptors = new ArrayList<>(settings.interceptors);
    Collections.reverse(interceptors);
    // The first of a list is the last to see a request.
    interceptors.add(new Headers());
    headed = ClientInterceptors.intercept(channel, interceptors);
    AtomicInteger number = new AtomicInteger();
    threads =
        Executors.newCachedThreadPool(
            work -> {
              Thread made = new Thread(work, "isomer-client-" + number.incrementAndGet());
              made.setDaemon(true);
              return made;
            });
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  Channel channel() {
    return headed;
  }

  ExecutorService threads() {
    return threads;
  }

  @Override
  public void close() {
    channel.shutdownNow();
    threads.shutdown();
    try {
      channel.awaitTermination(5, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  /** Until when a call that begins now must be answered. */
  private Deadline deadline() {
    Deadline deadline = Context.current().getDeadline();
    if (!settings.timeout.isZero()) {
      Deadline own = Deadline.after(settings.timeout.toNanos(), TimeUnit.NANOSECONDS);
      deadline = deadline == null ? own : deadline.minimum(own);
    }
    return deadline;
  }

  /** A call with one answer, made again as the policy says. */
  <Q, R> R call(MethodDescriptor<Q, R> method, Q request) {
    Deadline deadline = deadline();
    try {
      CallOptions options = CallOptions.DEFAULT.withDeadline(deadline);
      return ClientCalls.blockingUnaryCall(headed, method, options, request);
    } catch (RuntimeException error) {
      return again(method, request, deadline, error);
    }
  }

  /** All attempts but the first, which failed. */
  private <Q, R> R again(MethodDescriptor<Q, R> method, Q request, Deadline deadline, Throwable first) {
    Throwable last = first;
    for (int attempt = 1; ; attempt++) {
      pause(IsomerException.of(last, method.getFullMethodName(), attempt), attempt, deadline);
      try {
        CallOptions options = CallOptions.DEFAULT.withDeadline(deadline);
        return ClientCalls.blockingUnaryCall(headed, method, options, request);
      } catch (RuntimeException error) {
        last = error;
      }
    }
  }

  /** A call with many answers, made once; closing it cancels it. */
  <Q, R> CloseableIterator<R> stream(MethodDescriptor<Q, R> method, Q request) {
    String name = method.getFullMethodName();
    Context.CancellableContext context = Context.current().withCancellation();
    Context before = context.attach();
    Iterator<R> answers;
    try {
      answers = ClientCalls.blockingServerStreamingCall(headed, method, CallOptions.DEFAULT, request);
    } catch (RuntimeException error) {
      context.cancel(null);
      throw IsomerException.of(error, name, 1);
    } finally {
      context.detach(before);
    }
    return new CloseableIterator<R>() {
      @Override
      public boolean hasNext() {
        try {
          return answers.hasNext();
        } catch (RuntimeException error) {
          throw IsomerException.of(error, name, 1);
        }
      }

      @Override
      public R next() {
        return answers.next();
      }

      @Override
      public void close() {
        context.cancel(null);
      }
    };
  }

  /** Waits before a request is made again; throws the error where that makes no sense. */
  void pause(IsomerException error, int attempt, Deadline deadline) {
    if (Context.current().isCancelled() || Thread.currentThread().isInterrupted()) {
      boolean late = deadline != null && deadline.isExpired();
      throw late ? error : IsomerException.cancelled(error.method(), attempt);
    }
    if (attempt == 1 && outdated(error)) {
      return;
    }
    Duration remaining =
        deadline == null
            ? null
            : Duration.ofNanos(Math.max(0, deadline.timeRemaining(TimeUnit.NANOSECONDS)));
    Optional<Duration> wait = settings.retries.wait(error, attempt, remaining);
    if (wait.isEmpty()) {
      throw error;
    }
    if (!sleep(wait.get())) {
      throw IsomerException.cancelled(error.method(), attempt);
    }
    // gRPC's own pause before it connects again grows to minutes.
    channel.resetConnectBackoff();
  }

  /** Whether so much time passed, in which nothing was cancelled. */
  private static boolean sleep(Duration wait) {
    CountDownLatch over = new CountDownLatch(1);
    Context context = Context.current();
    Context.CancellationListener listener = cancelled -> over.countDown();
    context.addListener(listener, MoreExecutors.directExecutor());
    try {
      return !over.await(wait.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return false;
    } finally {
      context.removeListener(listener);
    }
  }

  private synchronized String secret() {
    if (settings.tokens == null) {
      return settings.key;
    }
    if (token == null || !token.usable()) {
      token = settings.tokens.token();
      if (token == null || token.value().isEmpty()) {
        token = null;
        throw IsomerException.invalid("token", "return a Token", "the token source gave no token");
      }
    }
    return token.value();
  }

  /** Whether a token was refused that a new one may replace: then once more, at once. */
  private synchronized boolean outdated(IsomerException error) {
    if (settings.tokens == null || error.code() != Status.Code.UNAUTHENTICATED) {
      return false;
    }
    boolean had = token != null;
    token = null;
    return had;
  }

  /** Sends key, token and metadata with each call. */
  private final class Headers implements ClientInterceptor {
    @Override
    public <Q, R> ClientCall<Q, R> interceptCall(
        MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
      return new ForwardingClientCall.SimpleForwardingClientCall<Q, R>(
          next.newCall(method, options)) {
        @Override
        public void start(Listener<R> listener, Metadata headers) {
          settings.metadata.forEach((name, value) -> headers.put(key(name), value));
          String secret = secret();
          if (secret != null) {
            headers.put(AUTHORIZATION, "Bearer " + secret);
          }
          super.start(listener, headers);
        }
      };
    }
  }

  /**
   * A call with one answer, whose first attempt holds no thread: most calls need no other. Further
   * attempts are made by a thread of the client's, in the context that this is called in.
   */
  private <Q, R> CompletableFuture<R> begin(MethodDescriptor<Q, R> method, Q request) {
    CompletableFuture<R> made = new CompletableFuture<>();
    Context context = Context.current();
    Deadline deadline = deadline();
    Consumer<Throwable> failed =
        error -> {
          try {
            threads.execute(
                context.wrap(
                    () -> {
                      try {
                        made.complete(again(method, request, deadline, error));
                      } catch (Throwable last) {
                        made.completeExceptionally(last);
                      }
                    }));
          } catch (RejectedExecutionException closed) {
            made.completeExceptionally(IsomerException.of(error, method.getFullMethodName(), 1));
          }
        };
    CallOptions options = CallOptions.DEFAULT.withDeadline(deadline);
    try {
      Futures.addCallback(
          ClientCalls.futureUnaryCall(headed.newCall(method, options), request),
          new FutureCallback<R>() {
            @Override
            public void onSuccess(R answer) {
              made.complete(answer);
            }

            @Override
            public void onFailure(Throwable error) {
              failed.accept(error);
            }
          },
          MoreExecutors.directExecutor());
    } catch (RuntimeException error) {
      failed.accept(error);
    }
    return made;
  }

  /** A request of a batch, and its answer. */
  private static final class Sent<R> {
    final int start;
    final int count;
    final CompletableFuture<R> answer;

    Sent(int start, int count, CompletableFuture<R> answer) {
      this.start = start;
      this.count = count;
      this.answer = answer;
    }
  }

  /**
   * An answer to each batch, as many requests in flight as the settings say; in the order of the
   * batches. Items are read in the caller's thread, and only as far as requests are out. Closing
   * it, or an error of any batch, cancels the others.
   *
   * @param request what is sent for the items of a batch
   */
  <T, Q, R> CloseableIterator<IsomerClient.Part<R>> parts(
      Batches<T> batches, MethodDescriptor<Q, R> method, Function<List<T>, Q> request) {
    Context.CancellableContext context = Context.current().withCancellation();
    Deque<Sent<R>> waiting = new ArrayDeque<>();
    return new CloseableIterator<IsomerClient.Part<R>>() {
      @Override
      public boolean hasNext() {
        return !waiting.isEmpty() || batches.hasNext();
      }

      private void send(Batches.Batch<T> batch) {
        Q asked = request.apply(batch.items);
        Context before = context.attach();
        try {
          waiting.add(new Sent<>(batch.start, batch.items.size(), begin(method, asked)));
        } finally {
          context.detach(before);
        }
      }

      @Override
      public IsomerClient.Part<R> next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        try {
          while (waiting.size() < settings.inFlight && batches.hasNext()) {
            send(batches.next());
          }
          Sent<R> sent = waiting.remove();
          try {
            return new IsomerClient.Part<>(sent.start, sent.count, sent.answer.get());
          } catch (ExecutionException error) {
            close();
            Throwable cause = error.getCause();
            if (cause instanceof IsomerException) {
              throw ((IsomerException) cause).moved(sent.start);
            }
            if (cause instanceof RuntimeException) {
              throw (RuntimeException) cause;
            }
            throw new IllegalStateException(cause);
          }
        } catch (InterruptedException error) {
          Thread.currentThread().interrupt();
          close();
          throw IsomerException.cancelled("", 1);
        } catch (RuntimeException error) {
          // The caller's iterator failed.
          close();
          throw error;
        }
      }

      @Override
      public void close() {
        context.cancel(null);
        boolean interrupted = false;
        while (!waiting.isEmpty()) {
          try {
            waiting.peek().answer.get();
            waiting.remove();
          } catch (ExecutionException over) {
            waiting.remove();
          } catch (InterruptedException error) {
            interrupted = true;
          }
        }
        if (interrupted) {
          Thread.currentThread().interrupt();
        }
      }
    };
  }
}

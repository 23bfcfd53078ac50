package dev.isomer.provider;

import com.google.protobuf.Duration;
import dev.isomer.client.IsomerClient;
import dev.isomer.client.IsomerException;
import dev.isomer.gateway.v1.ProviderKind;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.logging.Level;
import java.util.logging.Logger;

/** A provider that is served, and registered as long as it is. */
public final class ProviderServer implements AutoCloseable {
  private static final Logger LOG = Logger.getLogger(ProviderServer.class.getName());

  private final Description is;
  private final Server server;
  private final ScheduledExecutorService clock;
  private IsomerClient gateway;
  private String id;

  private ProviderServer(Description is, Server server) {
    this.is = is;
    this.id = providerId(is.id);
    this.server = server;
    this.clock =
        Executors.newSingleThreadScheduledExecutor(
            work -> {
              Thread made = new Thread(work, "isomer-provider-lease");
              made.setDaemon(true);
              return made;
            });
  }

  /**
   * Serves at an address; port 0 takes a free one.
   *
   * @param keys that callers may have; none: anybody may call
   */
  public static ProviderServer start(Provider provider, InetSocketAddress listen, Set<String> keys)
      throws IOException {
    return start(provider, listen, keys, settings -> {});
  }

  /** The same with further settings of the server, such as TLS. */
  public static ProviderServer start(
      Provider provider,
      InetSocketAddress listen,
      Set<String> keys,
      Consumer<NettyServerBuilder> settings)
      throws IOException {
    Description is = provider.describe();
    NettyServerBuilder builder =
        NettyServerBuilder.forAddress(listen)
            .maxInboundMessageSize(Integer.MAX_VALUE)
            .addService(new EncoderService(provider, is))
            .addService(health())
            .intercept(new Admission(Set.copyOf(keys)));
    settings.accept(builder);
    return new ProviderServer(is, builder.build().start());
  }

  /** Where it listens: host and port. */
  public String address() {
    InetSocketAddress found = (InetSocketAddress) server.getListenSockets().get(0);
    return found.getAddress().getHostAddress() + ":" + found.getPort();
  }

  /** An encoder's id as a provider's, which has up to 63 of a-z, 0-9 and hyphens. */
  public static String providerId(String encoder) {
    String id = encoder.toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9]+", "-");
    id = id.replaceAll("^-", "");
    id = id.substring(0, Math.min(id.length(), 63)).replaceAll("-$", "");
    return id.isEmpty() ? "provider" : id;
  }

  /**
   * The id that {@link #register} registers it by: {@link #providerId} of the encoder's, unless
   * another is set.
   */
  public synchronized String id() {
    return id;
  }

  /** Sets the id to register by. */
  public synchronized ProviderServer id(String id) {
    this.id = id;
    return this;
  }

  /** Registers with a gateway, which reaches the server where it listens. */
  public void register(IsomerClient client, java.time.Duration lease) {
    register(client, lease, "grpc://" + address());
  }

  /**
   * Registers with a gateway, renews the lease, and takes the provider away when it is closed.
   *
   * @param client with a key of the scope {@code admin}
   * @param address how the gateway reaches this server
   */
  public synchronized void register(
      IsomerClient client, java.time.Duration lease, String address) {
    dev.isomer.gateway.v1.Provider record =
        dev.isomer.gateway.v1.Provider.newBuilder()
            .setId(id)
            .setKind(ProviderKind.PROVIDER_KIND_ISOMER)
            .setAddress(address)
            .putEncoders(is.id, is.id)
            .setLease(
                Duration.newBuilder().setSeconds(lease.getSeconds()).setNanos(lease.getNano()))
            .build();
    client.providers().put(record);
    gateway = client;
    java.time.Duration every = lease.dividedBy(3);
    clock.scheduleWithFixedDelay(
        () -> renew(client, record, every), every.toNanos(), every.toNanos(), TimeUnit.NANOSECONDS);
  }

  private static void renew(
      IsomerClient client, dev.isomer.gateway.v1.Provider record, java.time.Duration most) {
    try {
      client.within(
          most,
          () -> {
            try {
              return client.providers().renewLease(record.getId());
            } catch (IsomerException.NotFound gone) {
              // The lease ran out, or the gateway lost its memory.
              return client.providers().put(record);
            }
          });
    } catch (RuntimeException error) {
      String what = "the lease of `" + record.getId() + "` was not renewed: ";
      LOG.log(Level.WARNING, what + error.getMessage());
    }
  }

  /** Takes the provider away from its gateway, then lets requests in flight end. */
  @Override
  public void close() {
    clock.shutdown();
    try {
      clock.awaitTermination(10, TimeUnit.SECONDS);
      if (gateway != null) {
        gateway.within(
            java.time.Duration.ofSeconds(10),
            () -> {
              gateway.providers().delete(id);
              return null;
            });
      }
    } catch (IsomerException error) {
      String what = "`" + id + "` was not taken away from its gateway: ";
      LOG.log(Level.WARNING, what + error.getMessage());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    server.shutdown();
    try {
      if (!server.awaitTermination(5, TimeUnit.SECONDS)) {
        server.shutdownNow();
      }
    } catch (InterruptedException error) {
      server.shutdownNow();
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Serves on the loopback interface until SIGTERM or SIGINT; with a client, registered with that
   * gateway.
   */
  public static void serve(Provider provider, IsomerClient gateway)
      throws IOException, InterruptedException {
    InetSocketAddress listen = new InetSocketAddress("127.0.0.1", 0);
    ProviderServer made = start(provider, listen, Set.of());
    Runtime.getRuntime().addShutdownHook(new Thread(made::close, "isomer-provider-stop"));
    System.out.println("listening on " + made.address());
    if (gateway != null) {
      try {
        made.register(gateway, java.time.Duration.ofSeconds(30));
      } catch (RuntimeException error) {
        made.close();
        throw error;
      }
      System.out.println("registered as " + made.id());
    }
    made.server.awaitTermination();
  }

  /** Admits callers with a key. */
  private static final class Admission implements ServerInterceptor {
    private static final Metadata.Key<String> AUTHORIZATION =
        Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private final Set<String> keys;

    Admission(Set<String> keys) {
      this.keys = keys;
    }

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      String given = headers.get(AUTHORIZATION);
      boolean health = call.getMethodDescriptor().getFullMethodName().startsWith("grpc.health.");
      if (keys.isEmpty()
          || health
          || given != null && given.startsWith("Bearer ") && keys.contains(given.substring(7))) {
        return next.startCall(call, headers);
      }
      StatusRuntimeException refused =
          (StatusRuntimeException)
              EncoderService.refused(
                  Status.Code.UNAUTHENTICATED,
                  "UNKNOWN_KEY",
                  "",
                  "no key that is known",
                  "send `authorization: Bearer KEY`");
      Metadata trailers = refused.getTrailers() == null ? new Metadata() : refused.getTrailers();
      call.close(refused.getStatus(), trailers);
      return new ServerCall.Listener<Q>() {};
    }
  }

  /** grpc.health.v1, whose one answer is SERVING: 1, in field 1. */
  private static ServerServiceDefinition health() {
    MethodDescriptor.Marshaller<byte[]> bytes =
        new MethodDescriptor.Marshaller<byte[]>() {
          @Override
          public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
          }

          @Override
          public byte[] parse(InputStream stream) {
            try {
              return stream.readAllBytes();
            } catch (IOException error) {
              throw Status.INTERNAL.withCause(error).asRuntimeException();
            }
          }
        };
    MethodDescriptor<byte[], byte[]> check =
        MethodDescriptor.newBuilder(bytes, bytes)
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName("grpc.health.v1.Health/Check")
            .build();
    return ServerServiceDefinition.builder("grpc.health.v1.Health")
        .addMethod(
            check,
            ServerCalls.asyncUnaryCall(
                (request, to) -> {
                  to.onNext(new byte[] {8, 1});
                  to.onCompleted();
                }))
        .build();
  }
}

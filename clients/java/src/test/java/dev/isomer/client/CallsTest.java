package dev.isomer.client;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.sun.net.httpserver.HttpServer;
import dev.isomer.encoder.v1.EncoderServiceGrpc;
import dev.isomer.encoder.v1.ListEncodersRequest;
import dev.isomer.gateway.v1.DeleteProviderRequest;
import dev.isomer.gateway.v1.DeleteProviderResponse;
import dev.isomer.gateway.v1.ProviderServiceGrpc;
import dev.isomer.gateway.v1.RenewLeaseRequest;
import dev.isomer.gateway.v1.RenewLeaseResponse;
import dev.isomer.gateway.v1.UpdateProviderRequest;
import dev.isomer.gateway.v1.UpdateProviderResponse;
import dev.isomer.provider.Description;
import dev.isomer.provider.Provider;
import dev.isomer.provider.ProviderServer;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntConsumer;
import org.junit.After;
import org.junit.Test;

/** Calls of a provider in this process. */
public final class CallsTest {
  private static final InetSocketAddress ANYWHERE =
      new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
  private final List<AutoCloseable> open = new ArrayList<>();
  private final AtomicInteger calls = new AtomicInteger();
  private volatile IntConsumer fault = call -> {};

  /** Encodes a text as its length and 1. */
  private final class Lengths implements Provider {
    @Override
    public Description describe() {
      return new Description("lengths", "1", 2).maxBatchItems(8).unnormalised().prompt("query", "q: ");
    }

    @Override
    public List<float[]> encode(List<String> texts) {
      fault.accept(calls.incrementAndGet());
      List<float[]> rows = new ArrayList<>();
      texts.forEach(text -> rows.add(new float[] {text.length(), 1}));
      return rows;
    }
  }

  private <T extends AutoCloseable> T opened(T one) {
    open.add(0, one);
    return one;
  }

  @After
  public void close() throws Exception {
    for (AutoCloseable one : open) {
      one.close();
    }
  }

  private ProviderServer served(String... keys) throws Exception {
    return opened(ProviderServer.start(new Lengths(), ANYWHERE, Set.of(keys)));
  }

  private static List<String> texts(int count) {
    List<String> made = new ArrayList<>();
    for (int number = 0; number < count; number++) {
      made.add("x".repeat(number));
    }
    return made;
  }

  private static EncodeOptions lengths() {
    return EncodeOptions.encoder("lengths");
  }

  @Test
  public void anyNumberOfTextsIsEncodedInOrderAndSaysItsSpace() throws Exception {
    IsomerClient client = opened(IsomerClient.connect(served().address()));
    Embeddings found = client.encode(texts(50), lengths());
    assertEquals(50, found.vectors().rows());
    assertEquals(7, calls.get());
    for (int row = 0; row < 50; row++) {
      float[] due = {row, 1};
      assertArrayEquals(due, found.vectors().slice(row, row + 1).toFloats(), 0);
    }
    assertEquals(50, found.tokenCounts().size());
    assertEquals(50, found.usage().getTexts());
    assertFalse(found.vectors().isView());
    Embeddings one = client.encode(texts(3), lengths());
    assertTrue(one.vectors().isView());
    assertEquals("of several answers as of one", one.space(), found.space());
    IsomerException refused =
        assertThrows(
            IsomerException.class, () -> client.encodeTokenIds(List.of(new int[] {1}), lengths()));
    assertEquals(Status.Code.UNIMPLEMENTED, refused.code());
    assertEquals("inputs[0]", refused.field());
    assertEquals(0, client.encode(List.of(), lengths()).vectors().rows());
  }

  @Test
  public void aStreamReadsAsFarAsRequestsAreOut() throws Exception {
    IsomerClient client =
        opened(IsomerClient.builder(served().address()).inFlight(2).build());
    AtomicInteger read = new AtomicInteger();
    Iterator<String> endless =
        new Iterator<String>() {
          @Override
          public boolean hasNext() {
            return true;
          }

          @Override
          public String next() {
            return "x".repeat(read.getAndIncrement() % 100);
          }
        };
    int rows = 0;
    try (CloseableIterator<Embeddings> parts = client.encodeStream(endless, lengths())) {
      while (rows < 80) {
        Matrix part = parts.next().vectors();
        for (int row = 0; row < part.rows(); row++) {
          assertEquals(rows++ % 100, part.row(row).get(0), 0);
        }
        assertTrue(read + " were read for " + rows, read.get() <= rows + 8 * 3);
      }
    }
  }

  @Test
  public void requestsAreMadeAgainAndAFaultIsFinal() throws Exception {
    RetryPolicy quick = new RetryPolicy(3, 3, Duration.ofMillis(1), Duration.ofSeconds(1));
    IsomerClient client =
        opened(IsomerClient.builder(served().address()).retries(quick).build());
    fault =
        call -> {
          if (call <= 2) {
            throw Status.UNAVAILABLE.asRuntimeException();
          }
        };
    client.encode(texts(1), lengths());
    assertEquals(3, calls.get());
    fault =
        call -> {
          throw Status.INTERNAL.withDescription("broken").asRuntimeException();
        };
    IsomerException failed =
        assertThrows(IsomerException.class, () -> client.encode(texts(1), lengths()));
    assertEquals(Status.Code.INTERNAL, failed.code());
    assertEquals(4, calls.get());
    assertEquals(1, failed.attempts());
  }

  @Test
  public void aFutureThatIsCancelledAndAnInterruptedThreadEndTheirCalls() throws Exception {
    IsomerClient client = opened(IsomerClient.connect(served().address()));
    client.encoder("lengths");
    CountDownLatch came = new CountDownLatch(1);
    CountDownLatch ended = new CountDownLatch(1);
    fault =
        call -> {
          io.grpc.Context context = io.grpc.Context.current();
          context.addListener(cancelled -> ended.countDown(), Runnable::run);
          came.countDown();
          try {
            assertTrue("the call was not cancelled", ended.await(60, TimeUnit.SECONDS));
          } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
          }
        };
    CompletableFuture<Embeddings> asked = client.encodeAsync(texts(1), lengths());
    assertTrue(came.await(60, TimeUnit.SECONDS));
    asked.cancel(true);
    assertTrue("the server is told", ended.await(60, TimeUnit.SECONDS));
    assertThrows(CancellationException.class, asked::join);
    fault = call -> {};
    Thread.currentThread().interrupt();
    assertThrows(IsomerException.Cancelled.class, () -> client.encode(texts(1), lengths()));
    assertTrue("the interruption is kept", Thread.interrupted());
    assertEquals(1, client.encode(texts(1), lengths()).vectors().rows());
    IsomerException.DeadlineExceeded late =
        assertThrows(
            IsomerException.DeadlineExceeded.class,
            () ->
                client.within(
                    Duration.ofMillis(50),
                    () -> {
                      fault =
                          call -> {
                            try {
                              Thread.sleep(2000);
                            } catch (InterruptedException error) {
                              Thread.currentThread().interrupt();
                            }
                          };
                      return client.encode(texts(1), lengths());
                    }));
    assertFalse(late.method().isEmpty());
    fault = call -> {};
    ExecutionException failed =
        assertThrows(
            ExecutionException.class,
            () -> client.encodeAsync(texts(1), EncodeOptions.encoder("length")).get());
    assertTrue(failed.getCause() instanceof IsomerException.NotFound);
  }

  @Test
  public void keysOfAProviderAndStubsOnTheChannel() throws Exception {
    String address = served("iso_right").address();
    IsomerClient right = opened(IsomerClient.builder(address).key("iso_right").build());
    IsomerClient wrong = opened(IsomerClient.builder(address).key("iso_wrong").build());
    right.encode(texts(1), lengths());
    IsomerException refused =
        assertThrows(
            IsomerException.Unauthenticated.class, () -> wrong.encode(texts(1), lengths()));
    assertEquals("UNKNOWN_KEY", refused.reason());
    assertTrue(refused.getMessage(), refused.getMessage().contains(refused.hint()));
    ListEncodersRequest request = ListEncodersRequest.getDefaultInstance();
    EncoderServiceGrpc.EncoderServiceBlockingStub stub =
        EncoderServiceGrpc.newBlockingStub(right.channel());
    assertEquals("lengths", stub.listEncoders(request).getEncoders(0).getId());
  }

  @Test
  public void aLeaseIsRenewedAndTakenAgainWhenItIsForgotten() throws Exception {
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    AtomicInteger renewals = new AtomicInteger();
    AtomicBoolean there = new AtomicBoolean();
    Server registry =
        NettyServerBuilder.forAddress(ANYWHERE)
            .addService(
                new ProviderServiceGrpc.ProviderServiceImplBase() {
                  @Override
                  public void updateProvider(
                      UpdateProviderRequest request, StreamObserver<UpdateProviderResponse> to) {
                    there.set(true);
                    seen.add("put " + request.getProvider().getId());
                    to.onNext(UpdateProviderResponse.getDefaultInstance());
                    to.onCompleted();
                  }

                  @Override
                  public void renewLease(
                      RenewLeaseRequest request, StreamObserver<RenewLeaseResponse> to) {
                    if (renewals.incrementAndGet() == 2) {
                      there.set(false);
                    }
                    if (!there.get()) {
                      seen.add("forgot");
                      to.onError(Status.NOT_FOUND.asRuntimeException());
                      return;
                    }
                    seen.add("renew");
                    to.onNext(RenewLeaseResponse.getDefaultInstance());
                    to.onCompleted();
                  }

                  @Override
                  public void deleteProvider(
                      DeleteProviderRequest request, StreamObserver<DeleteProviderResponse> to) {
                    seen.add("delete " + request.getId());
                    to.onNext(DeleteProviderResponse.getDefaultInstance());
                    to.onCompleted();
                  }
                })
            .build()
            .start();
    opened(registry::shutdownNow);
    IsomerClient client = opened(IsomerClient.connect("127.0.0.1:" + registry.getPort()));
    ProviderServer mine = served();
    mine.register(client, Duration.ofMillis(300));
    // Between them may be others: on a busy machine a renewal may take longer than it has.
    for (String due : List.of("put lengths", "renew", "forgot", "put lengths", "renew")) {
      awaited(due, seen);
    }
    mine.close();
    awaited("delete lengths", seen);
  }

  private static void awaited(String due, BlockingQueue<String> seen) throws InterruptedException {
    String one = "";
    while (!due.equals(one)) {
      one = seen.poll(60, TimeUnit.SECONDS);
      assertNotNull(due + " did not come", one);
    }
  }

  @Test
  public void clientCredentialsGetTokens() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    HttpServer server = HttpServer.create(ANYWHERE, 0);
    opened(() -> server.stop(0));
    String base = "http://127.0.0.1:" + server.getAddress().getPort();
    server.createContext(
        "/",
        exchange -> {
          String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
          String answer = "{\"token_endpoint\": \"" + base + "/token\"}";
          int code = 200;
          if (exchange.getRequestURI().getPath().equals("/token")) {
            code = body.contains("client_secret=s%26cret") && body.contains("audience=isomer") ? 200 : 401;
            answer =
                "{\"access_token\": \"token-" + asked.incrementAndGet() + "\", \"expires_in\": 3600}";
          }
          byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
          exchange.sendResponseHeaders(code, bytes.length);
          exchange.getResponseBody().write(bytes);
          exchange.close();
        });
    server.start();
    ClientCredentials source =
        ClientCredentials.ofIssuer(base + "/", "me", "s&cret").audience("isomer");
    assertEquals("token-1", source.token().value());
    assertTrue(source.token().expiresAt().isPresent());
    ClientCredentials wrong = ClientCredentials.ofTokenUrl(base + "/token", "me", "other");
    assertThrows(IsomerException.Unauthenticated.class, wrong::token);
    server.stop(0);
    assertThrows(IsomerException.Unavailable.class, source::token);
  }
}

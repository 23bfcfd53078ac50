package dev.isomer.client;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.MethodDescriptor;
import com.google.protobuf.Descriptors.ServiceDescriptor;
import dev.isomer.common.v1.Dtype;
import dev.isomer.encoder.v1.Encoder;
import dev.isomer.encoder.v1.EncoderOuterClass;
import dev.isomer.eval.v1.RunOuterClass;
import dev.isomer.eval.v1.Task;
import dev.isomer.gateway.v1.Access;
import dev.isomer.gateway.v1.ProviderOuterClass;
import dev.isomer.provider.ProviderServer;
import dev.isomer.transform.v1.Transform;
import io.grpc.Status;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.Test;

/** Rules that need no server. */
public final class RulesTest {
  private static IsomerException error(Status.Code code, Duration retryAfter, String method) {
    IsomerException.Facts facts = new IsomerException.Facts(code, "no");
    facts.retryAfter = retryAfter;
    facts.method = method;
    return facts.exception();
  }

  @Test
  public void aConnectionThatIsClosedUnderACallIsUnavailableAndTriedAgain() {
    Status closed =
        Status.INTERNAL.withDescription(
            "Abrupt GOAWAY closed sent stream. HTTP/2 error code: INTERNAL_ERROR");
    String method = "isomer.encoder.v1.EncoderService/Encode";
    IsomerException error = IsomerException.of(closed.asRuntimeException(), method, 1);
    assertEquals(Status.Code.UNAVAILABLE, error.code());
    RetryPolicy policy = new RetryPolicy(3, 3, Duration.ofMillis(1), Duration.ofSeconds(1));
    assertTrue(policy.wait(error, 1, null).isPresent());
    // An error that a server itself calls internal is one.
    Status own = Status.INTERNAL.withDescription("a bug");
    IsomerException bug = IsomerException.of(own.asRuntimeException(), method, 1);
    assertEquals(Status.Code.INTERNAL, bug.code());
    assertFalse(policy.wait(bug, 1, null).isPresent());
  }

  @Test
  public void addressesAreReadAsEveryClientReadsThem() {
    Map.of(
            "127.0.0.1:50051", "127.0.0.1:50051 false",
            "http://gateway:80", "gateway:80 false",
            "grpc://gateway:80/", "gateway:80 false",
            "https://gateway.example", "gateway.example:443 true",
            "grpcs://gateway:8443", "gateway:8443 true",
            "[::1]:50051", "[::1]:50051 false")
        .forEach(
            (given, due) -> {
              Address found = Address.of(given, false);
              assertEquals(due, found.target + " " + found.secure);
            });
    for (String bad :
        List.of("", "http://", "gateway", "ftp://a:1", "http://a:1/p", "http://u@a:1", "a:port",
            "http://a:1?x=1", "a:99999")) {
      IsomerException failed =
          assertThrows(bad, IsomerException.InvalidArgument.class, () -> Address.of(bad, false));
      assertEquals("address", failed.field());
      assertFalse(failed.hint().isEmpty());
    }
  }

  @Test
  public void secretsStayOnThisMachineWithoutTls() {
    for (String far : List.of("gateway:50051", "127.0.0.1.example:1", "http://10.0.0.1:1")) {
      for (IsomerClient.Builder one :
          List.of(
              IsomerClient.builder(far).key("iso_key"),
              IsomerClient.builder(far).tokens(() -> Token.of("t")))) {
        IsomerException failed = assertThrows(IsomerException.class, one::check);
        assertEquals("SECRET_IN_PLAIN_TEXT", failed.reason());
        one.secretOverPlainText().check();
      }
    }
    for (String near : List.of("127.0.0.1:1", "localhost:1", "[::1]:1", "https://gateway")) {
      IsomerClient.builder(near).key("iso_key").check();
    }
  }

  @Test
  public void settingsThatCannotBeMeantAreNamed() {
    Map.of(
            "tokens", IsomerClient.builder("a:1").key("a").tokens(() -> Token.of("t")),
            "key", IsomerClient.builder("a:1").key("iso\nkey"),
            "in_flight", IsomerClient.builder("a:1").inFlight(0),
            "batch_items", IsomerClient.builder("a:1").batchItems(0),
            "batch_bytes", IsomerClient.builder("a:1").batchBytes(0),
            "timeout", IsomerClient.builder("a:1").timeout(Duration.ofSeconds(-1)),
            "metadata",
                IsomerClient.builder("https://a").key("a").metadata("authorization", "b"))
        .forEach(
            (field, builder) -> {
              IsomerException failed = assertThrows(IsomerException.class, builder::check);
              assertEquals(field, failed.field());
            });
    IsomerException missing =
        assertThrows(
            IsomerException.class, () -> Tls.trusting(Path.of("/nowhere.pem")).credentials());
    assertEquals("tls.ca", missing.field());
  }

  @Test
  public void retriesFollowTheServerAndTheDeadline() {
    RetryPolicy policy = RetryPolicy.DEFAULT;
    String twice = "isomer.encoder.v1.EncoderService/Encode";
    String once = "isomer.gateway.v1.AccessService/CreateKey";
    Duration second = Duration.ofSeconds(1);
    Status.Code full = Status.Code.RESOURCE_EXHAUSTED;
    Status.Code gone = Status.Code.UNAVAILABLE;
    assertEquals(Optional.of(second), policy.wait(error(full, second, once), 1, null));
    assertEquals(Optional.of(second), policy.wait(error(gone, second, once), 1, null));
    assertTrue(policy.wait(error(gone, null, twice), 1, null).isPresent());
    List<Optional<Duration>> last =
        List.of(
            policy.wait(error(full, Duration.ofMinutes(1), twice), 1, null),
            policy.wait(error(full, second.multipliedBy(2), twice), 1, second),
            policy.wait(error(full, null, twice), 1, null),
            policy.wait(error(full, second, twice), 8, null),
            policy.wait(error(gone, null, once), 1, null),
            policy.wait(error(gone, null, twice), 6, null),
            policy.wait(error(Status.Code.INTERNAL, second, twice), 1, null),
            policy.wait(error(Status.Code.DEADLINE_EXCEEDED, null, twice), 1, null));
    for (int place = 0; place < last.size(); place++) {
      assertEquals("number " + place, Optional.empty(), last.get(place));
    }
    RetryPolicy patient = new RetryPolicy(1, 1000, second, Duration.ofMinutes(1));
    Duration late = patient.wait(error(gone, null, twice), 500, null).orElseThrow();
    assertTrue(late.compareTo(Duration.ofMinutes(1)) <= 0 && !late.isNegative());
  }

  @Test
  public void whatMustNotBeRepeatedIsInTheProtos() {
    Set<String> found = new HashSet<>();
    Stream.of(
            EncoderOuterClass.getDescriptor(),
            Transform.getDescriptor(),
            RunOuterClass.getDescriptor(),
            dev.isomer.eval.v1.Statistics.getDescriptor(),
            Task.getDescriptor(),
            ProviderOuterClass.getDescriptor(),
            Access.getDescriptor())
        .forEach(
            file -> {
              for (ServiceDescriptor service : file.getServices()) {
                for (MethodDescriptor method : service.getMethods()) {
                  found.add(service.getFullName() + "/" + method.getName());
                }
              }
            });
    assertTrue(found.containsAll(RetryPolicy.ONCE));
    // Of what changes something, what may be made twice is named, so that a new rpc is thought of.
    Set<String> same = Set.of("CreateRun", "CancelRun", "RevokeKey", "UpdateKey");
    for (String method : found) {
      String name = method.substring(method.indexOf('/') + 1);
      boolean changes = name.matches("(Create|Delete|Update|Cancel|Revoke).*");
      assertTrue(method, !changes || same.contains(name) || RetryPolicy.ONCE.contains(method));
    }
  }

  @Test
  public void anEncodersIdBecomesOneThatGatewaysTake() {
    Map<String, String> due =
        Map.of(
            "Org/My_Model.v2", "org-my-model-v2",
            "BAAI/bge-small-en-v1.5", "baai-bge-small-en-v1-5",
            "hashing-256", "hashing-256",
            "--a--", "a",
            "模型", "provider",
            "A".repeat(70), "a".repeat(63),
            "a".repeat(62) + "_b", "a".repeat(62));
    due.forEach((encoder, id) -> assertEquals(encoder, id, ProviderServer.providerId(encoder)));
  }

  @Test
  public void fieldsCountInTheCallersList() {
    IsomerException.Facts facts =
        new IsomerException.Facts(Status.Code.NOT_FOUND, "inputs[3].text is bad; see pairs[10]");
    facts.field = "inputs[3].text";
    IsomerException own = facts.exception().moved(32);
    assertEquals("what was not sent has its place already", "inputs[3].text", own.field());
    facts.method = "a/b";
    IsomerException moved = facts.exception().moved(32);
    assertEquals("inputs[35].text", moved.field());
    assertEquals("inputs[35].text is bad; see pairs[42]", moved.text());
    assertTrue(moved instanceof IsomerException.NotFound);
  }

  @Test
  public void batchesLoseNothingAndKeepTheLimits() {
    List<String> texts = new ArrayList<>();
    for (int number = 0; number < 50; number++) {
      texts.add("x".repeat(number % 13));
    }
    for (int mostItems : new int[] {1, 2, 7, 1000}) {
      for (int mostBytes : new int[] {1, 10, 1000}) {
        List<String> joined = new ArrayList<>();
        Batches<String> batches =
            new Batches<>(texts.iterator(), mostItems, mostBytes, Batches::size);
        while (batches.hasNext()) {
          Batches.Batch<String> one = batches.next();
          assertEquals(joined.size(), one.start);
          int bytes = one.items.stream().mapToInt(String::length).sum();
          assertTrue(!one.items.isEmpty() && one.items.size() <= mostItems);
          assertTrue(bytes <= mostBytes || one.items.size() == 1);
          joined.addAll(one.items);
        }
        assertEquals(texts, joined);
      }
    }
    assertFalse(new Batches<String>(List.<String>of().iterator(), 1, 1, Batches::size).hasNext());
    assertTrue(Batches.size("grüße") >= 7);
  }

  @Test
  public void rolesFindTheEncodersPrompts() {
    Encoder encoder =
        Encoder.newBuilder()
            .putPrompts("query", "q: ")
            .putPrompts("passage", "p: ")
            .putPrompts("STS", "s: ")
            .putPrompts("Retrieval-document", "d: ")
            .build();
    Map.of(
            "query", "query",
            "Query", "query",
            "document", "passage",
            "corpus", "passage",
            "sts", "STS",
            "Retrieval-query", "query",
            "Retrieval-corpus", "Retrieval-document",
            "Reranking-passage", "passage")
        .forEach((role, due) -> assertEquals(due, EncodeOptions.promptOfRole(encoder, role)));
    assertNull(EncodeOptions.promptOfRole(encoder, "Clustering"));
    EncodeOptions both = EncodeOptions.encoder("a").promptName("b").role("c");
    assertEquals(
        "prompt",
        assertThrows(IsomerException.class, () -> both.request(encoder, false)).field());
  }

  private static Matrix matrix(int rows, int cols, Dtype dtype, int... bytes) {
    byte[] data = new byte[bytes.length];
    for (int place = 0; place < data.length; place++) {
      data[place] = (byte) bytes[place];
    }
    return Matrix.of(
        dev.isomer.common.v1.Matrix.newBuilder()
            .setRows(rows)
            .setCols(cols)
            .setDtype(dtype)
            .setData(ByteString.copyFrom(data))
            .build());
  }

  @Test
  public void matricesAreViewsAndConvert() {
    float[] first = {1.5f, -2, Float.POSITIVE_INFINITY};
    float[] second = {0, 3, 4};
    Matrix made = Matrix.of(List.of(first, second));
    Matrix read = Matrix.of(made.message());
    assertEquals(4f, read.row(1).get(2), 0);
    assertEquals(3, read.row(1).remaining());
    assertArrayEquals(new float[] {1.5f, -2, Float.POSITIVE_INFINITY, 0, 3, 4}, read.toFloats(), 0);
    assertArrayEquals(second, read.slice(1, 2).toFloats(), 0);
    assertTrue(read.isView() && read.bytes().isReadOnly() && read.floats().isReadOnly());
    assertArrayEquals(
        new float[] {1, -2, 1f / (1 << 24), 65504, Float.NEGATIVE_INFINITY},
        matrix(1, 5, Dtype.DTYPE_F16, 0, 0x3c, 0, 0xc0, 1, 0, 0xff, 0x7b, 0, 0xfc).toFloats(),
        0);
    assertArrayEquals(
        new float[] {127, -128}, matrix(2, 1, Dtype.DTYPE_INT8, 127, 128).toFloats(), 0);
    assertArrayEquals(
        new float[] {1, 0, 0, 0, 0, 0, 0, 1, 0, 1},
        matrix(1, 10, Dtype.DTYPE_UBINARY, 0b10000001, 0b01000000).toFloats(),
        0);
    assertThrows(
        IsomerException.BadAnswer.class, () -> matrix(1, 2, Dtype.DTYPE_F32, 1, 2, 3, 4, 5, 6, 7));
    assertThrows(
        "a product that does not fit",
        IsomerException.BadAnswer.class,
        () -> matrix(1 << 31, 1 << 31, Dtype.DTYPE_F32));
    assertThrows(
        IsomerException.BadAnswer.class, () -> matrix(1, 1, Dtype.DTYPE_UNSPECIFIED, 0, 0, 0, 0));
    assertThrows(
        IsomerException.InvalidArgument.class,
        () -> Matrix.of(List.of(new float[1], new float[2])));
    assertThrows(IndexOutOfBoundsException.class, () -> read.row(2));
  }

  private static VectorSpace space(String digest, String prompt, int dimensions) {
    return VectorSpace.of(
        dev.isomer.common.v1.VectorSpace.newBuilder()
            .setDigest(digest)
            .setPrompt(prompt)
            .setDimensions(dimensions)
            .build());
  }

  @Test
  public void collectionsTakeOnePromptOrAnother() {
    VectorCollection articles = new VectorCollection("articles");
    assertTrue(articles.space().isEmpty());
    articles.check(space("a", "", 8));
    articles.check(space("b", "query: ", 8));
    articles.check(space("a", "", 8));
    IsomerException.SpaceMismatch failed =
        assertThrows(
            IsomerException.SpaceMismatch.class, () -> articles.check(space("c", "", 4)));
    assertEquals(List.of("dimensions", "digest"), failed.differing());
    assertThrows(
        IsomerException.SpaceMismatch.class,
        () -> new VectorCollection("stored", space("c", "", 4)).check(space("a", "", 8)));
  }

  @Test
  public void transformationsAreNamedWithTheirParameters() {
    assertEquals(
        "de",
        Transformations.named("translation", Map.of("target_language", "de"))
            .getTranslation()
            .getTargetLanguage());
    assertTrue(Transformations.named("paraphrase", Map.of()).hasParaphrase());
    Map<String, Map<String, Object>> bad =
        Map.of(
            "spec.transformation.translation.language", Map.of("language", "de"),
            "spec.transformation.translation.target_language", Map.of("target_language", 7));
    bad.forEach(
        (field, parameters) ->
            assertEquals(
                field,
                assertThrows(
                        IsomerException.class,
                        () -> Transformations.named("translation", parameters))
                    .field()));
    assertEquals(
        "spec.transformation",
        assertThrows(IsomerException.class, () -> Transformations.named("paraphrse", Map.of()))
            .field());
  }

  @Test
  public void tracesGoOnUnderSpansOfTheirOwn() {
    String trace = "0af7651916cd43dd8448eb211c80319c";
    String parent = "00-" + trace + "-b7ad6b7169203331-01";
    String child = Traces.child(parent);
    assertTrue(child, child.matches("00-" + trace + "-[0-9a-f]{16}-01"));
    assertNotEquals(parent, child);
    assertNotEquals(child, Traces.child(parent));
    for (String none : List.of("", "nonsense", "00-" + "0".repeat(32) + "-b7ad6b7169203331-01")) {
      assertNull(Traces.child(none));
    }
    assertNull(Traces.child(null));
  }

  @Test
  public void tokensAreNotSentInTheirLastSecondsAndNotShown() {
    assertTrue(Token.of("secret").usable());
    assertTrue(Token.of("secret", Instant.now().plusSeconds(60)).usable());
    assertFalse(Token.of("secret", Instant.now().plusSeconds(5)).usable());
    assertFalse(Token.of("secret").toString().contains("secret"));
    ClientCredentials source = ClientCredentials.ofIssuer("https://login.example", "me", "secret");
    assertFalse(source.toString().contains("secret"));
    for (String bad : List.of("http://login.example", "login.example", "https://")) {
      assertEquals(
          "issuer",
          assertThrows(
                  IsomerException.class, () -> ClientCredentials.ofTokenUrl(bad, "me", "secret"))
              .field());
    }
  }
}

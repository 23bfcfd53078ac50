import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.isomer.client.CloseableIterator;
import dev.isomer.client.EncodeOptions;
import dev.isomer.client.Embeddings;
import dev.isomer.client.IsomerClient;
import dev.isomer.client.IsomerException;
import dev.isomer.client.Keys;
import dev.isomer.client.Matrix;
import dev.isomer.client.Outputs;
import dev.isomer.client.Providers;
import dev.isomer.client.Runs;
import dev.isomer.client.SparseVector;
import dev.isomer.client.Statistics;
import dev.isomer.client.Tls;
import dev.isomer.client.Token;
import dev.isomer.client.Transformations;
import dev.isomer.client.VectorCollection;
import dev.isomer.common.v1.Dtype;
import dev.isomer.encoder.v1.Encoder;
import dev.isomer.encoder.v1.Output;
import dev.isomer.encoder.v1.TokenizeRequest;
import dev.isomer.encoder.v1.Truncation;
import dev.isomer.eval.v1.AdjustPValuesRequest;
import dev.isomer.eval.v1.CompareRequest;
import dev.isomer.eval.v1.CompareResponse;
import dev.isomer.eval.v1.GetReportResponse;
import dev.isomer.eval.v1.ReportFormat;
import dev.isomer.eval.v1.Run;
import dev.isomer.eval.v1.RunSpec;
import dev.isomer.eval.v1.ScoreResponse;
import dev.isomer.eval.v1.TaskType;
import dev.isomer.gateway.v1.AccessScope;
import dev.isomer.gateway.v1.ApiKey;
import dev.isomer.gateway.v1.CheckProviderResponse;
import dev.isomer.gateway.v1.Provider;
import dev.isomer.gateway.v1.ProviderKind;
import dev.isomer.transform.v1.AugmentationPooling;
import dev.isomer.transform.v1.AugmentationSpec;
import dev.isomer.transform.v1.EncodeAugmentedRequest;
import dev.isomer.transform.v1.TextItem;
import dev.isomer.transform.v1.TransformResult;
import dev.isomer.transform.v1.TransformSpec;
import io.grpc.Context;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.stream.Collectors;

/** Runs the cases of clients/conformance with this client: {@code Conformance CASES RESULTS}. */
public final class Conformance {
  private static final Gson GSON = new GsonBuilder().serializeNulls().create();
  private static final int MOST_SECONDS_OF_A_CASE = 120;

  private final JsonObject connect;
  private final ScheduledExecutorService clock;
  private final Map<String, VectorCollection> collections = new HashMap<>();
  private final Map<String, Step> steps = new HashMap<>();
  private IsomerClient client;
  private int tokensAsked;

  /** Behaviour of a step. */
  private interface Step {
    Map<String, Object> run(JsonObject step) throws Exception;
  }

  private Conformance(JsonObject connect, ScheduledExecutorService clock) {
    this.connect = connect;
    this.clock = clock;
    steps.put("encode", this::encode);
    steps.put("encode_stream", this::encodeStream);
    steps.put("encode_tokens", this::encodeTokens);
    steps.put("encode_outputs", this::encodeOutputs);
    steps.put("threads", this::threads);
    steps.put("encoders", step -> Map.of("ids", ids(client.encoders(), Encoder::getId)));
    steps.put("encoder", this::encoder);
    steps.put("count_tokens", this::countTokens);
    steps.put("tokenize", this::tokenize);
    steps.put("rerank", this::rerank);
    steps.put("transform", this::transform);
    steps.put("transform_stream", this::transformStream);
    steps.put("encode_augmented", this::encodeAugmented);
    steps.put("score_pairs", this::scorePairs);
    steps.put("score_dataset", this::scoreDataset);
    steps.put("adjust_p_values", this::adjustPValues);
    steps.put("compare", this::compare);
    steps.put("run", this::run);
    steps.put("create_run", step -> Map.of("id", client.runs().create(spec(step)).getId()));
    steps.put("watch_run", this::watchRun);
    steps.put("create_provider", this::createProvider);
    steps.put("providers", this::providers);
    steps.put("list_keys", step -> Map.of("ids", ids(client.keys().list(), ApiKey::getId)));
    steps.put("create_key", step -> Map.of("id", client.keys().create(key(step)).id()));
    steps.put("keys", this::keys);
  }

  // Arguments

  private static String text(JsonObject from, String name) {
    return from.has(name) ? from.get(name).getAsString() : "";
  }

  private static int number(JsonObject from, String name) {
    return from.has(name) ? from.get(name).getAsInt() : 0;
  }

  private static List<String> texts(JsonObject from, String name) {
    List<String> made = new ArrayList<>();
    if (from.has(name)) {
      from.getAsJsonArray(name).forEach(one -> made.add(one.getAsString()));
    }
    return made;
  }

  private static List<Double> numbers(JsonElement from) {
    List<Double> made = new ArrayList<>();
    from.getAsJsonArray().forEach(one -> made.add(one.getAsDouble()));
    return made;
  }

  private static double[] array(JsonElement from) {
    return numbers(from).stream().mapToDouble(Double::doubleValue).toArray();
  }

  private static String word(String prefix, String word) {
    return prefix + word.toUpperCase(Locale.ROOT).replace('-', '_');
  }

  private static <E> List<String> ids(java.util.stream.Stream<E> of, Function<E, String> id) {
    return of.map(id).collect(Collectors.toList());
  }

  private EncodeOptions options(JsonObject step) {
    EncodeOptions made = EncodeOptions.encoder(text(step, "encoder"));
    if (step.has("prompt")) {
      made.prompt(text(step, "prompt"));
    }
    if (step.has("prompt_name")) {
      made.promptName(text(step, "prompt_name"));
    }
    if (step.has("role")) {
      made.role(text(step, "role"));
    }
    if (step.has("dimensions")) {
      made.dimensions(number(step, "dimensions"));
    }
    if (step.has("normalise")) {
      made.normalise(step.get("normalise").getAsBoolean());
    }
    if (step.has("dtype")) {
      made.dtype(Dtype.valueOf(word("DTYPE_", text(step, "dtype"))));
    }
    if (step.has("truncation")) {
      made.truncation(Truncation.valueOf(word("TRUNCATION_", text(step, "truncation"))));
    }
    if (step.has("partial")) {
      made.partial();
    }
    if (step.has("collection")) {
      made.collection(
          collections.computeIfAbsent(text(step, "collection"), VectorCollection::new));
    }
    return made;
  }

  private static List<String> digests(Matrix matrix) throws Exception {
    List<String> made = new ArrayList<>();
    for (int row = 0; row < matrix.rows(); row++) {
      made.add(digest(matrix.slice(row, row + 1).bytes()));
    }
    return made;
  }

  private static String digest(ByteBuffer bytes) throws Exception {
    MessageDigest sha = MessageDigest.getInstance("SHA-256");
    sha.update(bytes);
    StringBuilder digits = new StringBuilder();
    for (byte one : sha.digest()) {
      digits.append(String.format("%02x", one));
    }
    return digits.substring(0, 16);
  }

  // Steps

  private Map<String, Object> encode(JsonObject step) throws Exception {
    Embeddings found = client.encode(texts(step, "texts"), options(step));
    Map<String, Object> made = new LinkedHashMap<>();
    made.put("rows", digests(found.vectors()));
    made.put("cols", found.vectors().cols());
    made.put("token_counts", found.tokenCounts());
    made.put(
        "failed", found.errors().stream().map(one -> one.index()).collect(Collectors.toList()));
    made.put("view", found.vectors().isView() && found.vectors().bytes().isReadOnly());
    return made;
  }

  private Map<String, Object> encodeStream(JsonObject step) throws Exception {
    Iterator<String> source = texts(step, "texts").iterator();
    int[] read = {0};
    Iterator<String> counted =
        new Iterator<String>() {
          @Override
          public boolean hasNext() {
            return source.hasNext();
          }

          @Override
          public String next() {
            read[0]++;
            return source.next();
          }
        };
    List<String> rows = new ArrayList<>();
    int atFirst = 0;
    int batches = 0;
    try (CloseableIterator<Embeddings> parts = client.encodeStream(counted, options(step))) {
      while (parts.hasNext()) {
        Embeddings part = parts.next();
        atFirst = atFirst == 0 ? read[0] : atFirst;
        rows.addAll(digests(part.vectors()));
        if (++batches == number(step, "leave_after")) {
          break;
        }
      }
    }
    return Map.of("rows", rows, "read_at_first", atFirst);
  }

  private Map<String, Object> encodeTokens(JsonObject step) throws Exception {
    List<String> rows = new ArrayList<>();
    List<Integer> counts = new ArrayList<>();
    for (Matrix one : client.encodeTokens(texts(step, "texts"), options(step))) {
      rows.addAll(digests(one));
      counts.add(one.rows());
    }
    return Map.of("rows", rows, "counts", counts);
  }

  private Map<String, Object> encodeOutputs(JsonObject step) throws Exception {
    List<Output> outputs = new ArrayList<>();
    for (String output : texts(step, "outputs")) {
      outputs.add(Output.valueOf(word("OUTPUT_", output)));
    }
    EncodeOptions options = options(step);
    if (step.has("max_active_dimensions")) {
      options.maxActiveDimensions(number(step, "max_active_dimensions"));
    }
    Outputs found = client.encodeOutputs(texts(step, "texts"), outputs, options);
    Map<String, Object> made = new LinkedHashMap<>();
    Map<String, Object> spaces = new LinkedHashMap<>();
    made.put("spaces", spaces);
    if (found.textVector().isPresent()) {
      made.put("rows", digests(found.textVector().get().vectors()));
      spaces.put("text_vector", found.textVector().get().space().digest());
    }
    if (found.sparse().isPresent()) {
      List<String> rows = new ArrayList<>();
      for (SparseVector one : found.sparse().get().texts()) {
        ByteBuffer bytes =
            ByteBuffer.allocate(8 * one.indices().length).order(ByteOrder.LITTLE_ENDIAN);
        for (int index : one.indices()) {
          bytes.putInt(index);
        }
        for (float value : one.values()) {
          bytes.putFloat(value);
        }
        bytes.flip();
        rows.add(digest(bytes));
      }
      made.put("sparse", rows);
      spaces.put("sparse", found.sparse().get().space().digest());
    }
    if (found.tokenVectors().isPresent()) {
      List<String> rows = new ArrayList<>();
      List<Integer> counts = new ArrayList<>();
      for (Matrix one : found.tokenVectors().get().texts()) {
        rows.addAll(digests(one));
        counts.add(one.rows());
      }
      made.put("token_rows", rows);
      made.put("counts", counts);
      spaces.put("token_vectors", found.tokenVectors().get().space().digest());
    }
    return made;
  }

  private Map<String, Object> threads(JsonObject step) throws Exception {
    List<CompletableFuture<Embeddings>> asked = new ArrayList<>();
    for (int thread = 0; thread < number(step, "threads"); thread++) {
      asked.add(client.encodeAsync(texts(step, "texts"), options(step)));
    }
    List<String> rows = new ArrayList<>();
    for (CompletableFuture<Embeddings> one : asked) {
      rows.addAll(digests(one.get().vectors()));
    }
    return Map.of("rows", rows);
  }

  private Map<String, Object> encoder(JsonObject step) {
    Encoder found = client.encoder(text(step, "encoder"));
    return Map.of("dimensions", found.getDimensions(), "prompts", found.getPromptsMap());
  }

  private Map<String, Object> countTokens(JsonObject step) {
    return Map.of("token_counts", client.countTokens(texts(step, "texts"), options(step)));
  }

  private Map<String, Object> tokenize(JsonObject step) {
    TokenizeRequest request =
        TokenizeRequest.newBuilder()
            .setEncoderId(text(step, "encoder"))
            .addAllTexts(texts(step, "texts"))
            .setSpecialTokens(true)
            .build();
    return Map.of(
        "ids",
        client.tokenize(request).getTextsList().stream()
            .map(
                one ->
                    one.getTokensList().stream()
                        .map(token -> token.getId())
                        .collect(Collectors.toList()))
            .collect(Collectors.toList()));
  }

  private Map<String, Object> rerank(JsonObject step) {
    List<Object> ranking = new ArrayList<>();
    client
        .rerank(
            text(step, "encoder"),
            text(step, "query"),
            texts(step, "documents"),
            number(step, "top_n"))
        .forEach(one -> ranking.add(List.of(one.getIndex(), (double) one.getScore())));
    return Map.of("ranking", ranking);
  }

  private static List<TextItem> items(JsonObject step) {
    return Transformations.items(texts(step, "texts"));
  }

  private static TransformSpec transformSpec(JsonObject step) {
    return Transformations.spec(text(step, "transformation"))
        .setGeneratorId(text(step, "generator"))
        .build();
  }

  private static Map<String, Object> transformed(Iterable<TransformResult> results) {
    List<String> texts = new ArrayList<>();
    List<Integer> indices = new ArrayList<>();
    for (TransformResult one : results) {
      texts.add(one.getText());
      indices.add(one.getIndex());
    }
    return Map.of("texts", texts, "indices", indices);
  }

  private Map<String, Object> transform(JsonObject step) {
    return transformed(client.transformations().transform(items(step), transformSpec(step)));
  }

  private Map<String, Object> transformStream(JsonObject step) {
    Map<Integer, TransformResult> found = new TreeMap<>();
    try (CloseableIterator<TransformResult> results =
        client.transformations().transformStream(items(step), transformSpec(step))) {
      results.forEachRemaining(one -> found.put(one.getIndex(), one));
    }
    return transformed(found.values());
  }

  private Map<String, Object> encodeAugmented(JsonObject step) throws Exception {
    AugmentationSpec.Builder spec = AugmentationSpec.newBuilder();
    for (JsonElement one : step.getAsJsonArray("sources")) {
      JsonObject source = one.getAsJsonObject();
      spec.addSources(
          Transformations.source(text(source, "transformation"), text(source, "generator")));
    }
    EncodeAugmentedRequest request =
        EncodeAugmentedRequest.newBuilder()
            .setSpec(spec)
            .setEncoderId(text(step, "encoder"))
            .setPooling(
                AugmentationPooling.valueOf(
                    word("AUGMENTATION_POOLING_", text(step, "pooling"))))
            .setOriginalWeight(step.get("original_weight").getAsDouble())
            .build();
    Embeddings found = client.transformations().encodeAugmented(items(step), request).embeddings();
    return Map.of("rows", digests(found.vectors()));
  }

  private static TaskType task(JsonObject step) {
    return TaskType.valueOf(word("TASK_TYPE_", text(step, "task")));
  }

  private static Matrix matrix(JsonElement from) {
    List<float[]> rows = new ArrayList<>();
    for (JsonElement one : from.getAsJsonArray()) {
      List<Double> values = numbers(one);
      float[] row = new float[values.size()];
      for (int column = 0; column < row.length; column++) {
        row[column] = values.get(column).floatValue();
      }
      rows.add(row);
    }
    return Matrix.of(rows);
  }

  private static Map<String, Object> scored(ScoreResponse found) {
    return Map.of(
        "main_score_key", found.getMainScoreKey(),
        "main_score", found.getMainScore(),
        "items", found.getItems());
  }

  private Map<String, Object> scorePairs(JsonObject step) {
    Matrix first = matrix(step.get("first"));
    Matrix second = matrix(step.get("second"));
    return scored(
        client.tasks().scorePairs(task(step), first, second, numbers(step.get("labels"))));
  }

  private Map<String, Object> scoreDataset(JsonObject step) {
    return scored(
        client
            .tasks()
            .scoreDataset(
                task(step), text(step, "dataset"), text(step, "encoder"), number(step, "limit")));
  }

  private Map<String, Object> adjustPValues(JsonObject step) {
    AdjustPValuesRequest request =
        AdjustPValuesRequest.newBuilder().addAllPValues(numbers(step.get("p_values"))).build();
    var found = client.statistics().adjustPValues(request);
    return Map.of(
        "holm", found.getHolmList(), "benjamini_hochberg", found.getBenjaminiHochbergList());
  }

  private Map<String, Object> compare(JsonObject step) {
    CompareRequest.Builder request =
        CompareRequest.newBuilder()
            .setReference(Statistics.series("reference", array(step.get("reference"))));
    step.getAsJsonObject("treatments")
        .entrySet()
        .forEach(
            one ->
                request.addTreatments(Statistics.series(one.getKey(), array(one.getValue()))));
    if (step.has("seed")) {
      request.setSeed(step.get("seed").getAsLong());
    }
    CompareResponse found = client.statistics().compare(request.build());
    return Map.of(
        "mean_difference", found.getComparisons(0).getMeanDifference(),
        "n", found.getComparisons(0).getN());
  }

  private static RunSpec spec(JsonObject step) {
    RunSpec.Builder made =
        Runs.spec(text(step, "suite"), texts(step, "encoders"))
            .addAllTransformations(texts(step, "transformations"))
            .setGeneratorId(text(step, "generator"));
    if (step.has("limit")) {
      made.setLimit(number(step, "limit"));
    }
    return made.build();
  }

  private Map<String, Object> run(JsonObject step) {
    Run made = client.runs().create(spec(step));
    int[] events = {0};
    Run ended = client.runs().await(made.getId(), event -> events[0]++);
    int reports = 0;
    for (String format : texts(step, "formats")) {
      GetReportResponse report =
          client.runs().report(made.getId(), ReportFormat.valueOf(word("REPORT_FORMAT_", format)));
      reports += report.getContent().isEmpty() || report.getMediaType().isEmpty() ? 0 : 1;
    }
    String state = ended.getState().name().replaceFirst("^RUN_STATE_", "");
    return Map.of("state", state, "events", events[0], "reports", reports);
  }

  private Map<String, Object> watchRun(JsonObject step) {
    List<Long> sequences = new ArrayList<>();
    try (var events = client.runs().watch(text(step, "id"), 0)) {
      events.forEachRemaining(event -> sequences.add(event.getSequence()));
    }
    return Map.of("sequences", sequences);
  }

  private static Provider provider(JsonObject step) {
    Provider.Builder made =
        Provider.newBuilder()
            .setId(text(step, "id"))
            .setKind(ProviderKind.PROVIDER_KIND_ISOMER)
            .setAddress(text(step, "address"));
    step.getAsJsonObject("encoders")
        .entrySet()
        .forEach(one -> made.putEncoders(one.getKey(), one.getValue().getAsString()));
    return made.build();
  }

  private Map<String, Object> createProvider(JsonObject step) {
    return Map.of("id", client.providers().create(provider(step)).getId());
  }

  private Map<String, Object> providers(JsonObject step) {
    Providers providers = client.providers();
    String id = text(step, "id");
    Provider made = providers.create(provider(step));
    Provider read = providers.get(id);
    List<String> listed = ids(providers.list(), Provider::getId);
    Provider price = Provider.newBuilder().setId(id).setPricePerMillionTokens(2.5).build();
    Provider changed = providers.update(price, List.of("price_per_million_tokens"));
    CheckProviderResponse checked = providers.check(id);
    providers.delete(id);
    String deleted = "still there";
    try {
      providers.get(id);
    } catch (IsomerException.NotFound error) {
      deleted = error.code().name();
    }
    return Map.of(
        "created", made.getId().equals(id) && read.getId().equals(id),
        "listed", listed.contains(id),
        "price", changed.getPricePerMillionTokens(),
        "usable", checked.getUsable(),
        "deleted", deleted);
  }

  private static ApiKey key(JsonObject step) {
    ApiKey.Builder made = ApiKey.newBuilder().setName(text(step, "name"));
    for (String scope : texts(step, "scopes")) {
      made.addScopes(AccessScope.valueOf(word("ACCESS_SCOPE_", scope)));
    }
    return made.build();
  }

  private Map<String, Object> keys(JsonObject step) throws Exception {
    Keys.NewKey made = client.keys().create(key(step));
    List<String> listed = ids(client.keys().list(), ApiKey::getId);
    String after = "still in force";
    List<String> rows;
    try (IsomerClient other =
        IsomerClient.builder(text(connect, "address")).key(made.secret()).build()) {
      rows = digests(other.encode(texts(step, "texts"), options(step)).vectors());
      client.keys().revoke(made.id());
      try {
        other.encode(texts(step, "texts"), options(step));
      } catch (IsomerException.Unauthenticated error) {
        after = error.reason();
      }
    }
    List<String> audited =
        client
            .keys()
            .audit(0)
            .filter(event -> event.getTarget().contains(made.id()))
            .map(event -> event.getAct())
            .collect(Collectors.toList());
    return Map.of(
        "rows", rows, "listed", listed.contains(made.id()), "after", after, "audited", audited);
  }

  // Cases

  private IsomerClient connected() {
    IsomerClient.Builder made = IsomerClient.builder(text(connect, "address"));
    connect
        .getAsJsonObject("metadata")
        .entrySet()
        .forEach(one -> made.metadata(one.getKey(), one.getValue().getAsString()));
    if (connect.has("key")) {
      made.key(text(connect, "key"));
    }
    if (connect.has("tokens")) {
      List<String> tokens = texts(connect, "tokens");
      made.tokens(() -> Token.of(tokens.get(Math.min(++tokensAsked, tokens.size()) - 1)));
    }
    if (connect.has("ca_file")) {
      Tls tls = Tls.trusting(Path.of(text(connect, "ca_file")));
      if (connect.has("certificate_file")) {
        tls.certificate(
            Path.of(text(connect, "certificate_file")), Path.of(text(connect, "key_file")));
      }
      made.tls(tls);
    }
    if (connect.has("in_flight")) {
      made.inFlight(number(connect, "in_flight"));
    }
    if (connect.has("batch_items")) {
      made.batchItems(number(connect, "batch_items"));
    }
    if (connect.has("batch_bytes")) {
      made.batchBytes(number(connect, "batch_bytes"));
    }
    if (connect.has("timeout_ms")) {
      made.timeout(Duration.ofMillis(number(connect, "timeout_ms")));
    }
    if (connect.has("traceparent")) {
      made.traceparent(() -> text(connect, "traceparent"));
    }
    return made.build();
  }

  private Map<String, Object> step(JsonObject step) throws Exception {
    if (client == null) {
      client = connected();
    }
    Step work = steps.get(text(step, "op"));
    if (work == null) {
      throw new IllegalStateException("there is no step " + text(step, "op"));
    }
    if (step.has("cancel_after_ms")) {
      Context.CancellableContext context = Context.current().withCancellation();
      clock.schedule(
          () -> context.cancel(null), number(step, "cancel_after_ms"), TimeUnit.MILLISECONDS);
      return context.call(() -> work.run(step));
    }
    if (step.has("timeout_ms")) {
      return client.within(
          Duration.ofMillis(number(step, "timeout_ms")),
          () -> {
            try {
              return work.run(step);
            } catch (RuntimeException error) {
              throw error;
            } catch (Exception error) {
              throw new IllegalStateException(error);
            }
          });
    }
    return work.run(step);
  }

  private static IsomerException failure(Throwable error) {
    for (Throwable one = error; one != null; one = one.getCause()) {
      if (one instanceof IsomerException) {
        return (IsomerException) one;
      }
    }
    return null;
  }

  private static Map<String, Object> described(IsomerException error) {
    Map<String, Object> made = new LinkedHashMap<>();
    made.put("type", error.getClass().getSimpleName());
    made.put("too_old", error instanceof IsomerException.ClientTooOld);
    made.put("code", error.code().name());
    made.put("reason", error.reason());
    made.put("field", error.field());
    made.put("hint", error.hint());
    made.put("message", error.text());
    made.put("shown", error.getMessage());
    made.put("metadata", error.metadata());
    error.retryAfter().ifPresent(wait -> made.put("retry_after_s", wait.toMillis() / 1000.0));
    return made;
  }

  private Map<String, Object> results(JsonArray all) throws Exception {
    List<Map<String, Object>> made = new ArrayList<>();
    try {
      for (JsonElement one : all) {
        JsonObject step = one.getAsJsonObject();
        if (text(step, "op").equals("fork")) {
          return Map.of("skipped", "a Java program does not fork: its threads would not be in the child");
        }
        long started = System.nanoTime();
        Map<String, Object> result = new LinkedHashMap<>();
        try {
          result.put("ok", step(step));
        } catch (Exception error) {
          IsomerException failed = failure(error);
          if (failed == null) {
            throw error;
          }
          result.put("error", described(failed));
        }
        result.put("elapsed_ms", Math.round((System.nanoTime() - started) / 1e6));
        if (connect.has("tokens")) {
          result.put("tokens_asked", tokensAsked);
        }
        made.add(result);
      }
      return Map.of("steps", made);
    } finally {
      if (client != null) {
        client.close();
      }
    }
  }

  private static Map<String, Object> guarded(JsonObject told, ScheduledExecutorService clock) {
    CompletableFuture<Map<String, Object>> result = new CompletableFuture<>();
    Thread work =
        new Thread(
            () -> {
              try {
                Conformance made = new Conformance(told.getAsJsonObject("connect"), clock);
                result.complete(made.results(told.getAsJsonArray("steps")));
              } catch (Exception | AssertionError error) {
                // A defect of the client: the case fails, the others continue.
                result.complete(Map.of("failed", String.valueOf(error)));
              }
            });
    work.setDaemon(true);
    work.start();
    try {
      return result.get(MOST_SECONDS_OF_A_CASE, TimeUnit.SECONDS);
    } catch (InterruptedException | ExecutionException | TimeoutException error) {
      work.interrupt();
      return Map.of("failed", String.valueOf(error));
    }
  }

  /** Runs. */
  public static void main(String[] arguments) throws Exception {
    ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    JsonObject given =
        JsonParser.parseString(Files.readString(Path.of(arguments[0]))).getAsJsonObject();
    Map<String, Object> results = new LinkedHashMap<>();
    for (JsonElement one : given.getAsJsonArray("cases")) {
      results.put(text(one.getAsJsonObject(), "id"), guarded(one.getAsJsonObject(), clock));
    }
    Map<String, String> client =
        Map.of("name", "isomer-client-java", "version", IsomerClient.VERSION);
    Files.writeString(
        Path.of(arguments[1]), GSON.toJson(Map.of("client", client, "results", results)));
    System.exit(0);
  }
}

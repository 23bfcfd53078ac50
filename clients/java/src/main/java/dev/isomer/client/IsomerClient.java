package dev.isomer.client;

import dev.isomer.common.v1.Dtype;
import dev.isomer.common.v1.Usage;
import dev.isomer.encoder.v1.CountTokensRequest;
import dev.isomer.encoder.v1.DetokenizeRequest;
import dev.isomer.encoder.v1.EncodeRequest;
import dev.isomer.encoder.v1.EncodeResponse;
import dev.isomer.encoder.v1.Encoder;
import dev.isomer.encoder.v1.EncoderServiceGrpc;
import dev.isomer.encoder.v1.GetEncoderRequest;
import dev.isomer.encoder.v1.Input;
import dev.isomer.encoder.v1.ListEncodersRequest;
import dev.isomer.encoder.v1.Output;
import dev.isomer.encoder.v1.RerankRequest;
import dev.isomer.encoder.v1.RerankResponse;
import dev.isomer.encoder.v1.TokenIds;
import dev.isomer.encoder.v1.TokenizeRequest;
import dev.isomer.encoder.v1.TokenizeResponse;
import io.grpc.Channel;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.ManagedChannelBuilder;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToIntFunction;
import java.util.stream.Stream;

/**
 * A client of one Isomer server. Threads may share it: make one and keep it, it is one connection.
 *
 * <p>Methods wait for their answer. {@link #async} makes any of them a {@link CompletableFuture},
 * whose cancellation cancels what is in flight at the server; {@link #within} bounds the time of
 * all its requests together. Calls end with the gRPC {@link Context} that they are made in, and
 * with the interruption of their thread.
 */
public final class IsomerClient implements AutoCloseable {
  /** Version of this client, which it sends in user-agent. */
  public static final String VERSION = "0.1.0";

  private final Transport transport;
  private final Map<String, Encoder> encoders = new ConcurrentHashMap<>();
  private final Map<Object, VectorSpace> spaces = new ConcurrentHashMap<>();
  private final ScheduledExecutorService clock;
  private final Transformations transformations;
  private final Tasks tasks;
  private final Statistics statistics;
  private final Runs runs;
  private final Providers providers;
  private final Keys keys;

  private IsomerClient(Builder settings) {
    transport = new Transport(settings);
    clock =
        Executors.newSingleThreadScheduledExecutor(
            work -> {
              Thread made = new Thread(work, "isomer-client-clock");
              made.setDaemon(true);
              return made;
            });
    transformations = new Transformations(this, transport);
    tasks = new Tasks(transport);
    statistics = new Statistics(transport);
    runs = new Runs(transport);
    providers = new Providers(transport);
    keys = new Keys(transport);
  }

  /**
   * Settings of a client of the server at an address: {@code host:port}, {@code http://host:port},
   * or {@code https://host} (TLS; port 443 unless given).
   */
  public static Builder builder(String address) {
    return new Builder(address);
  }

  /** A client of the server at an address, with the settings that hold for all. */
  public static IsomerClient connect(String address) {
    return builder(address).build();
  }

  /**
   * A client of the server in {@code ISOMER_SERVER}, with the key in {@code ISOMER_API_KEY}, as the
   * command line has it.
   */
  public static IsomerClient fromEnvironment() {
    String address = System.getenv("ISOMER_SERVER");
    Builder made = builder(address == null || address.isEmpty() ? Address.DEFAULT : address);
    String key = System.getenv("ISOMER_API_KEY");
    return (key == null || key.isEmpty() ? made : made.key(key)).build();
  }

  /** Settings of a client. */
  public static final class Builder {
    final String address;
    final Map<String, String> metadata = new LinkedHashMap<>();
    final List<ClientInterceptor> interceptors = new ArrayList<>();
    Tls tls;
    String key;
    TokenSource tokens;
    Duration timeout = Duration.ofSeconds(120);
    RetryPolicy retries = RetryPolicy.DEFAULT;
    int inFlight = 4;
    int batchItems = 256;
    int batchBytes = 1 << 20;
    boolean secretOverPlainText;
    boolean checkSpaces = true;
    Consumer<ManagedChannelBuilder<?>> channel = builder -> {};

    private Builder(String address) {
      this.address = address;
    }

    /** Calls the server with TLS, whatever the address says. */
    public Builder tls(Tls how) {
      this.tls = how;
      return this;
    }

    /** Sends an API key with each call. */
    public Builder key(String secret) {
      this.key = secret;
      return this;
    }

    /** Sends tokens of an identity provider in place of a key. See {@link ClientCredentials}. */
    public Builder tokens(TokenSource source) {
      this.tokens = source;
      return this;
    }

    /** Sends a further name and value with each call. */
    public Builder metadata(String name, String value) {
      metadata.put(name, value);
      return this;
    }

    /**
     * Time for one request, its retries included: 120 s unless it is given, no limit where it is
     * zero.
     */
    public Builder timeout(Duration most) {
      this.timeout = most;
      return this;
    }

    /** Changes when a request is made again. */
    public Builder retries(RetryPolicy policy) {
      this.retries = policy;
      return this;
    }

    /** Maximum number of concurrent requests of one call; 4 by default. */
    public Builder inFlight(int count) {
      this.inFlight = count;
      return this;
    }

    /**
     * Maximum number of texts in one request; 256 by default. The encoder's own limit goes before.
     */
    public Builder batchItems(int count) {
      this.batchItems = count;
      return this;
    }

    /** Maximum bytes of texts in one request; 1 MiB by default. */
    public Builder batchBytes(int count) {
      this.batchBytes = count;
      return this;
    }

    /** Lets a key or token travel in plain text to another machine. */
    public Builder secretOverPlainText() {
      this.secretOverPlainText = true;
      return this;
    }

    /** Takes answers of an encoder to the same question in another vector space than before. */
    public Builder withoutSpaceCheck() {
      this.checkSpaces = false;
      return this;
    }

    /** Adds an interceptor, which sees every attempt, such as that of OpenTelemetry. */
    public Builder intercept(ClientInterceptor interceptor) {
      interceptors.add(interceptor);
      return this;
    }

    /**
     * Carries the caller's trace on: {@code current} gives the {@code traceparent} (W3C Trace
     * Context) of the calling thread, or null.
     */
    public Builder traceparent(Supplier<String> current) {
      return intercept(new Traces(current));
    }

    /** Sets further things of gRPC's channel. */
    public Builder channel(Consumer<ManagedChannelBuilder<?>> settings) {
      this.channel = settings;
      return this;
    }

    /** The client. It sends nothing: the first call connects. */
    public IsomerClient build() {
      return new IsomerClient(this);
    }

    Address check() {
      Address found = Address.of(address, tls != null);
      if (key != null && tokens != null) {
        throw IsomerException.invalid(
            "tokens", "give one of the two", "a key and a token source are both given");
      }
      if (key != null && !key.chars().allMatch(letter -> letter > 0x20 && letter < 0x7f)
          || key != null && key.isEmpty()) {
        throw IsomerException.invalid(
            "key",
            "give it as `isomer keys create` printed it",
            "the key holds characters that no key has, or none");
      }
      boolean secret = key != null || tokens != null;
      if (secret && !found.secure && !secretOverPlainText && !found.local()) {
        throw new IsomerException.Facts(
                io.grpc.Status.Code.INVALID_ARGUMENT,
                "the key would travel to `" + address + "` in plain text")
            .reason("SECRET_IN_PLAIN_TEXT")
            .field("address")
            .hint(
                "write https:// in the address; or use secretOverPlainText() where nobody else can"
                    + " read the traffic")
            .exception();
      }
      Map.of("in_flight", inFlight, "batch_items", batchItems, "batch_bytes", batchBytes)
          .forEach(
              (name, value) -> {
                if (value < 1) {
                  throw IsomerException.invalid(name, "give 1 or more", name + " is " + value);
                }
              });
      if (timeout.isNegative()) {
        throw IsomerException.invalid(
            "timeout", "give more than zero, or zero for no limit", "timeout is " + timeout);
      }
      List<String> ours = List.of("authorization", "x-api-key", "api-key");
      for (String name : metadata.keySet()) {
        if (!name.equals(name.toLowerCase(Locale.ROOT)) || secret && ours.contains(name)) {
          throw IsomerException.invalid(
              "metadata",
              "names are in lower case; a key is given by key(), not as metadata",
              "metadata names `" + name + "`");
        }
      }
      return found;
    }
  }

  /** Ends the connection. Calls in flight are cancelled. */
  @Override
  public void close() {
    transport.close();
    clock.shutdownNow();
  }

  /**
   * The connection, for generated stubs: their calls have the client's key, tokens and metadata,
   * but none of its deadlines, retries and exceptions.
   */
  public Channel channel() {
    return transport.channel();
  }

  /** Transformations, and vectors of texts with their variants (GASE). */
  public Transformations transformations() {
    return transformations;
  }

  /** Scores of vectors and of data sets. */
  public Tasks tasks() {
    return tasks;
  }

  /** Tests and intervals of scores. */
  public Statistics statistics() {
    return statistics;
  }

  /** Robustness checks. */
  public Runs runs() {
    return runs;
  }

  /** The gateway's providers of encoders. */
  public Providers providers() {
    return providers;
  }

  /** The gateway's keys and audit log. */
  public Keys keys() {
    return keys;
  }

  /**
   * Makes calls in a thread of the client's. Cancelling the future, or completing it otherwise,
   * cancels what is in flight.
   */
  public <T> CompletableFuture<T> async(Supplier<T> calls) {
    Context.CancellableContext context = Context.current().withCancellation();
    CompletableFuture<T> made = new CompletableFuture<>();
    // The caller has completed it: nothing waits any more.
    made.whenComplete((answer, error) -> context.cancel(null));
    transport
        .threads()
        .execute(
            context.wrap(
                () -> {
                  try {
                    made.complete(calls.get());
                  } catch (Throwable error) {
                    made.completeExceptionally(error);
                  }
                }));
    return made;
  }

  /** Makes calls that take so much time together at most. */
  public <T> T within(Duration most, Supplier<T> calls) {
    Context.CancellableContext context =
        Context.current().withDeadlineAfter(most.toNanos(), TimeUnit.NANOSECONDS, clock);
    Context before = context.attach();
    try {
      return calls.get();
    } finally {
      context.detach(before);
      context.cancel(null);
    }
  }

  // Encoders

  /** The encoders that can be asked for, loaded or not; a page is fetched when it is needed. */
  public Stream<Encoder> encoders() {
    return Pages.of(
        page ->
            transport.call(
                EncoderServiceGrpc.getListEncodersMethod(),
                ListEncodersRequest.newBuilder().setPageToken(page).build()),
        answer -> answer.getEncodersList(),
        answer -> answer.getNextPageToken());
  }

  /** One encoder, described; the server loads it if need be. */
  public Encoder encoder(String id) {
    Encoder found =
        transport
            .call(
                EncoderServiceGrpc.getGetEncoderMethod(),
                GetEncoderRequest.newBuilder().setId(id).build())
            .getEncoder();
    encoders.put(id, found);
    return found;
  }

  /** Describes an encoder; the description is cached. */
  private Encoder known(String id) {
    Encoder found = encoders.get(id);
    return found == null ? encoder(id) : found;
  }

  private int mostItems(Encoder encoder) {
    int theirs = encoder.getMaxBatchItems();
    return theirs > 0 ? Math.min(theirs, transport.settings.batchItems) : transport.settings.batchItems;
  }

  // Vectors

  /** A vector for each of any number of texts, in their order. */
  public Embeddings encode(List<String> texts, EncodeOptions options) {
    return encode(texts, options, Batches::size, text -> Input.newBuilder().setText(text).build());
  }

  /** The same as a future. */
  public CompletableFuture<Embeddings> encodeAsync(List<String> texts, EncodeOptions options) {
    EncodeOptions now = options.copy();
    return async(() -> encode(texts, now));
  }

  /** {@link #encode} for lists of token ids by the encoder's own tokenizer. */
  public Embeddings encodeTokenIds(List<int[]> ids, EncodeOptions options) {
    return encode(ids, options, one -> 4 * one.length, IsomerClient::inputOfIds);
  }

  private static Input inputOfIds(int[] ids) {
    TokenIds.Builder made = TokenIds.newBuilder();
    for (int id : ids) {
      made.addIds(id);
    }
    return Input.newBuilder().setTokenIds(made).build();
  }

  private <T> Embeddings encode(
      List<T> items, EncodeOptions options, ToIntFunction<T> size, Function<T, Input> input) {
    Encoder encoder = known(options.encoder());
    EncodeRequest base = options.request(encoder, false);
    if (items.isEmpty()) {
      return empty(encoder, options);
    }
    Embeddings.Joiner joiner = new Embeddings.Joiner(items.size());
    Checker checker = new Checker(options, base);
    try (CloseableIterator<Part<EncodeResponse>> answers =
        parts(items.iterator(), encoder, base, size, input)) {
      while (answers.hasNext()) {
        Part<EncodeResponse> part = answers.next();
        joiner.add(checker.embeddings(part.answer, part.start, part.count));
      }
    }
    Embeddings whole = joiner.whole();
    if (!options.isPartial()) {
      ItemError.failed(whole.errors(), whole);
    }
    return whole;
  }

  /** Result for no texts: no rows, as wide as others would be. */
  private static Embeddings empty(Encoder encoder, EncodeOptions options) {
    int width = options.dimensions() > 0 ? options.dimensions() : encoder.getDimensions();
    Matrix none = new Matrix(0, width, options.dtype(), ByteBuffer.allocate(0), false);
    VectorSpace space = VectorSpace.of(encoder.getVectorSpace());
    return new Embeddings(
        none, space, List.of(), List.of(), Usage.getDefaultInstance(), List.of());
  }

  /** An answer to the texts from a place of the caller's list on. */
  static final class Part<R> {
    final int start;
    final int count;
    final R answer;

    Part(int start, int count, R answer) {
      this.start = start;
      this.count = count;
      this.answer = answer;
    }
  }

  private <T> CloseableIterator<Part<EncodeResponse>> parts(
      Iterator<? extends T> items,
      Encoder encoder,
      EncodeRequest base,
      ToIntFunction<T> size,
      Function<T, Input> input) {
    Batches<T> batches =
        new Batches<>(items, mostItems(encoder), transport.settings.batchBytes, size);
    return transport.parts(
        batches,
        EncoderServiceGrpc.getEncodeMethod(),
        some -> {
          EncodeRequest.Builder request = base.toBuilder();
          for (T item : some) {
            request.addInputs(input.apply(item));
          }
          return request.build();
        });
  }

  /**
   * Vectors of texts that come from an iterator, in their order, a batch at a time. Texts are read
   * only as far as requests are in flight, and each batch's vectors are a view of its answer:
   * memory does not grow with the number of texts. Close it to cancel what is in flight.
   */
  public CloseableIterator<Embeddings> encodeStream(
      Iterator<String> texts, EncodeOptions options) {
    EncodeOptions now = options.forStream();
    Encoder encoder = known(now.encoder());
    EncodeRequest base = now.request(encoder, false);
    Checker checker = new Checker(now, base);
    CloseableIterator<Part<EncodeResponse>> answers =
        parts(
            texts, encoder, base, Batches::size, text -> Input.newBuilder().setText(text).build());
    return new CloseableIterator<Embeddings>() {
      @Override
      public boolean hasNext() {
        return answers.hasNext();
      }

      @Override
      public Embeddings next() {
        Part<EncodeResponse> part = answers.next();
        try {
          Embeddings made = checker.embeddings(part.answer, part.start, part.count);
          if (!now.isPartial()) {
            ItemError.failed(made.errors(), made);
          }
          return made;
        } catch (IsomerException error) {
          close();
          throw error;
        }
      }

      @Override
      public void close() {
        answers.close();
      }
    };
  }

  /** A vector for each token of each text, special tokens and prompt included. */
  public List<Matrix> encodeTokens(List<String> texts, EncodeOptions options) {
    Encoder encoder = known(options.encoder());
    EncodeRequest base = options.request(encoder, true);
    Checker checker = new Checker(options, base);
    List<Matrix> made = new ArrayList<>();
    try (CloseableIterator<Part<EncodeResponse>> answers =
        parts(
            texts.iterator(),
            encoder,
            base,
            Batches::size,
            text -> Input.newBuilder().setText(text).build())) {
      while (answers.hasNext()) {
        Part<EncodeResponse> part = answers.next();
        made.addAll(checker.tokens(part.answer, part.start, part.count));
      }
    }
    return made;
  }

  /**
   * Several results of one pass: dense, sparse and token vectors. {@code dimensions}, {@code
   * normalise}, {@code dtype} and {@code collection} of the options apply to dense vectors.
   */
  public Outputs encodeOutputs(List<String> texts, List<Output> outputs, EncodeOptions options) {
    if (outputs.isEmpty()) {
      throw IsomerException.invalid("outputs", "give at least one", "outputs is empty");
    }
    if (texts.isEmpty()) {
      throw IsomerException.invalid("texts", "give at least one text", "texts is empty");
    }
    Encoder encoder = known(options.encoder());
    EncodeRequest dense = options.request(encoder, false);
    EncodeRequest base = dense.toBuilder().addAllOutputs(outputs).build();
    OutputsJoiner joiner = new OutputsJoiner(options, base, texts.size());
    try (CloseableIterator<Part<EncodeResponse>> answers =
        parts(
            texts.iterator(),
            encoder,
            base,
            Batches::size,
            text -> Input.newBuilder().setText(text).build())) {
      while (answers.hasNext()) {
        joiner.add(answers.next());
      }
    }
    return joiner.whole();
  }

  /** Checks every result of the answers of one call, and puts them together, in order. */
  private final class OutputsJoiner {
    private final List<Output> outputs;
    private final Checker dense;
    private final Checker sparse;
    private final Checker tokens;
    private final Embeddings.Joiner joiner;
    private final List<SparseVector> sparseVectors = new ArrayList<>();
    private final List<Matrix> tokenVectors = new ArrayList<>();
    private Usage usage = Usage.getDefaultInstance();

    OutputsJoiner(EncodeOptions options, EncodeRequest base, int count) {
      outputs = base.getOutputsList();
      joiner = new Embeddings.Joiner(count);
      EncodeRequest plain = base.toBuilder().clearOutputs().clearMaxActiveDimensions().build();
      // Settings of dense vectors do not change the spaces of the others.
      EncodeRequest.Builder other =
          plain.toBuilder().clearDimensions().clearNormalise().setOutputDtype(Dtype.DTYPE_F32);
      EncodeOptions without = EncodeOptions.encoder(options.encoder());
      dense = new Checker(options, plain);
      tokens = new Checker(without, other.setOutput(Output.OUTPUT_TOKEN_VECTORS).build());
      sparse =
          new Checker(without, other.clearOutput().addOutputs(Output.OUTPUT_SPARSE).build());
    }

    void add(Part<EncodeResponse> part) {
      EncodeResponse answer = part.answer;
      ItemError.failed(ItemError.of(answer.getErrorsList(), part.start), null);
      usage = Embeddings.sum(usage, answer.getUsage());
      for (Output output : outputs) {
        if (output == Output.OUTPUT_SPARSE) {
          sparseVectors.addAll(SparseVector.of(answer, part.count));
          sparse.space(VectorSpace.of(answer.getSparseVectorSpace()));
        } else if (output == Output.OUTPUT_TOKEN_VECTORS) {
          EncodeResponse own =
              answer.toBuilder()
                  .setEmbeddings(answer.getTokenEmbeddings())
                  .setVectorSpace(answer.getTokenVectorSpace())
                  .build();
          tokenVectors.addAll(tokens.tokens(own, part.start, part.count));
        } else {
          joiner.add(dense.embeddings(answer, part.start, part.count));
        }
      }
    }

    Outputs whole() {
      boolean texts = outputs.contains(Output.OUTPUT_TEXT_VECTOR);
      boolean lexical = outputs.contains(Output.OUTPUT_SPARSE);
      boolean late = outputs.contains(Output.OUTPUT_TOKEN_VECTORS);
      return new Outputs(
          texts ? joiner.whole() : null,
          lexical ? new Outputs.Sparse(sparseVectors, sparse.first) : null,
          late ? new Outputs.Tokens(tokenVectors, tokens.first) : null,
          usage);
    }
  }

  Checker checker(EncodeOptions options, Object question) {
    return new Checker(options, question);
  }

  /** Compares the answers of one call with its request, and with each other. */
  final class Checker {
    private final EncodeOptions options;
    private final Object question;
    private VectorSpace first;

    Checker(EncodeOptions options, Object question) {
      this.options = options;
      // The priority of a request does not change its answer.
      this.question =
          question instanceof EncodeRequest
              ? ((EncodeRequest) question).toBuilder().clearPriority().clearTruncation().build()
              : question;
    }

    private void space(VectorSpace space) {
      if (first == null) {
        // First the caller's own expectation, then what the server said before.
        if (options.collection() != null) {
          options.collection().check(space);
        }
        // Ranges of int8 may come from the texts of each request: the spaces of two calls differ.
        if (transport.settings.checkSpaces && options.dtype() != Dtype.DTYPE_INT8) {
          VectorSpace before = spaces.putIfAbsent(question, space);
          if (before != null && !before.digest().equals(space.digest())) {
            throw VectorSpace.mismatch(before, space, "`" + options.encoder() + "` before");
          }
        }
        first = space;
      }
      if (!first.digest().equals(space.digest())) {
        throw VectorSpace.mismatch(first, space, "the texts before them in the same call");
      }
    }

    private Matrix fitting(EncodeResponse answer) {
      Matrix matrix = Matrix.of(answer.getEmbeddings());
      int columns = options.dimensions();
      if (matrix.dtype() != options.dtype() || columns > 0 && matrix.cols() != columns) {
        throw IsomerException.badAnswer(
            "ask again; if it stays so, the server is at fault",
            matrix.cols() + " columns of " + matrix.dtype() + " were answered");
      }
      return matrix;
    }

    /** One answer's vectors, one row per text. */
    Embeddings embeddings(EncodeResponse answer, int start, int count) {
      Matrix matrix = fitting(answer);
      int marks = answer.getTruncatedCount();
      if (matrix.rows() != count || marks != 0 && marks != count) {
        throw IsomerException.badAnswer(
            "ask again; if it stays so, the server is at fault",
            matrix.rows() + " vectors and " + marks + " marks of truncation were answered to "
                + count + " texts");
      }
      VectorSpace space = VectorSpace.of(answer.getVectorSpace());
      space(space);
      return new Embeddings(
          matrix,
          space,
          answer.getTokenCountsList(),
          marks == 0 ? null : answer.getTruncatedList(),
          answer.getUsage(),
          ItemError.of(answer.getErrorsList(), start));
    }

    /** One answer's vectors of tokens, one matrix per text. */
    List<Matrix> tokens(EncodeResponse answer, int start, int count) {
      Matrix matrix = fitting(answer);
      ItemError.failed(ItemError.of(answer.getErrorsList(), start), null);
      long sum = answer.getRowCountsList().stream().mapToLong(Integer::toUnsignedLong).sum();
      if (answer.getRowCountsCount() != count || sum != matrix.rows()) {
        throw IsomerException.badAnswer(
            "ask again",
            matrix.rows() + " token vectors of " + answer.getRowCountsCount()
                + " texts were answered to " + count);
      }
      space(VectorSpace.of(answer.getVectorSpace()));
      List<Matrix> made = new ArrayList<>();
      int row = 0;
      for (int rows : answer.getRowCountsList()) {
        made.add(matrix.slice(row, row + rows));
        row += rows;
      }
      return made;
    }
  }

  /**
   * Any number of documents scored against a query by a cross-encoder, best first. The index of a
   * result is its place in the caller's list.
   *
   * @param topN most documents to give; 0 for all
   */
  public List<RerankResponse.Result> rerank(
      String encoder, String query, List<String> documents, int topN) {
    if (topN < 0) {
      throw IsomerException.invalid("top_n", "give 1 or more, or 0 for all", "topN is " + topN);
    }
    RerankRequest.Builder base = RerankRequest.newBuilder().setEncoderId(encoder).setQuery(query);
    if (topN > 0) {
      base.setTopN(topN);
    }
    RerankRequest asked = base.build();
    Batches<String> batches =
        new Batches<>(
            documents.iterator(),
            mostItems(known(encoder)),
            transport.settings.batchBytes,
            Batches::size);
    List<RerankResponse.Result> found = new ArrayList<>();
    int parts = 0;
    try (CloseableIterator<Part<RerankResponse>> answers =
        transport.parts(
            batches,
            EncoderServiceGrpc.getRerankMethod(),
            some -> asked.toBuilder().addAllDocuments(some).build())) {
      while (answers.hasNext()) {
        Part<RerankResponse> part = answers.next();
        parts++;
        for (RerankResponse.Result one : part.answer.getResultsList()) {
          found.add(one.toBuilder().setIndex(one.getIndex() + part.start).build());
        }
      }
    }
    if (parts > 1) {
      found.sort(
          Comparator.comparing(RerankResponse.Result::getScore, Comparator.reverseOrder())
              .thenComparing(RerankResponse.Result::getIndex));
    }
    return topN > 0 && found.size() > topN ? List.copyOf(found.subList(0, topN)) : found;
  }

  // Tokens

  /** Tokens of each text as {@link #encode} would see them, before truncation. */
  public List<Integer> countTokens(List<String> texts, EncodeOptions options) {
    CountTokensRequest.Builder request =
        CountTokensRequest.newBuilder().setEncoderId(options.encoder()).addAllTexts(texts);
    if (options.promptName() != null) {
      request.setPromptName(options.promptName());
    } else if (options.prompt() != null) {
      request.setLiteralPrompt(options.prompt());
    }
    return transport
        .call(EncoderServiceGrpc.getCountTokensMethod(), request.build())
        .getTokenCountsList();
  }

  /** The tokens of each text, with the part of the text that each stands for. */
  public TokenizeResponse tokenize(TokenizeRequest request) {
    return transport.call(EncoderServiceGrpc.getTokenizeMethod(), request);
  }

  /** The text of each list of token ids. */
  public List<String> detokenize(DetokenizeRequest request) {
    return transport.call(EncoderServiceGrpc.getDetokenizeMethod(), request).getTextsList();
  }
}

package dev.isomer.client;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.isomer.encoder.v1.EncodeResponse;
import dev.isomer.transform.v1.AugmentRequest;
import dev.isomer.transform.v1.AugmentationServiceGrpc;
import dev.isomer.transform.v1.AugmentationSpec;
import dev.isomer.transform.v1.EncodeAugmentedRequest;
import dev.isomer.transform.v1.EncodeAugmentedResponse;
import dev.isomer.transform.v1.EstimateRequest;
import dev.isomer.transform.v1.GenerationEstimate;
import dev.isomer.transform.v1.InspectRequest;
import dev.isomer.transform.v1.InspectResponse;
import dev.isomer.transform.v1.JudgeRequest;
import dev.isomer.transform.v1.JudgeResponse;
import dev.isomer.transform.v1.ListTransformationsRequest;
import dev.isomer.transform.v1.TextItem;
import dev.isomer.transform.v1.TransformRequest;
import dev.isomer.transform.v1.TransformResponse;
import dev.isomer.transform.v1.TransformResult;
import dev.isomer.transform.v1.TransformServiceGrpc;
import dev.isomer.transform.v1.TransformSpec;
import dev.isomer.transform.v1.TransformStreamRequest;
import dev.isomer.transform.v1.TransformStreamResponse;
import dev.isomer.transform.v1.Transformation;
import dev.isomer.transform.v1.TransformationInfo;
import dev.isomer.transform.v1.VariantSource;
import dev.isomer.transform.v1.Variants;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** TransformService and AugmentationService: texts to texts, and vectors of both (GASE). */
public final class Transformations {
  private final IsomerClient client;
  private final Transport transport;

  Transformations(IsomerClient client, Transport transport) {
    this.client = client;
    this.transport = transport;
  }

  /** Texts without ids. */
  public static List<TextItem> items(Collection<String> texts) {
    return texts.stream()
        .map(text -> TextItem.newBuilder().setText(text).build())
        .collect(Collectors.toList());
  }

  /**
   * A transformation of the catalogue by its name, e.g. {@code paraphrase}, or {@code translation}
   * with {@code Map.of("target_language", "de")}.
   */
  public static Transformation named(String name, Map<String, Object> parameters) {
    Descriptor all = Transformation.getDescriptor();
    FieldDescriptor kind = all.findFieldByName(name);
    if (kind == null) {
      throw IsomerException.invalid(
          "spec.transformation", "one of " + names(all), "there is no transformation `" + name + "`");
    }
    Transformation.Builder made = Transformation.newBuilder();
    Message.Builder inner = made.newBuilderForField(kind);
    parameters.forEach(
        (parameter, value) -> {
          String field = "spec.transformation." + name + "." + parameter;
          FieldDescriptor known = kind.getMessageType().findFieldByName(parameter);
          if (known == null) {
            throw IsomerException.invalid(
                field,
                "it has " + names(kind.getMessageType()),
                "`" + name + "` has no parameter `" + parameter + "`");
          }
          try {
            inner.setField(known, value);
          } catch (IllegalArgumentException | ClassCastException error) {
            throw IsomerException.invalid(
                field, "give a value of its type", field + " cannot be `" + value + "`");
          }
        });
    return made.setField(kind, inner.build()).build();
  }

  private static String names(Descriptor message) {
    return message.getFields().stream()
        .map(FieldDescriptor::getName)
        .collect(Collectors.joining(", "));
  }

  /** Specification of a transformation of the catalogue without parameters; set the rest on it. */
  public static TransformSpec.Builder spec(String transformation) {
    return spec(transformation, Map.of());
  }

  /** The same with parameters. */
  public static TransformSpec.Builder spec(String transformation, Map<String, Object> parameters) {
    return TransformSpec.newBuilder().setTransformation(named(transformation, parameters));
  }

  /**
   * A source of variants of a text (GASE).
   *
   * @param generator that makes it, where it needs one; empty for the server's
   */
  public static VariantSource source(String transformation, String generator) {
    return VariantSource.newBuilder()
        .setTransformation(named(transformation, Map.of()))
        .setGeneratorId(generator)
        .build();
  }

  /** The catalogue, with axis and prompts of each. */
  public Stream<TransformationInfo> list() {
    return Pages.of(
        page ->
            transport.call(
                TransformServiceGrpc.getListTransformationsMethod(),
                ListTransformationsRequest.newBuilder().setPageToken(page).build()),
        answer -> answer.getTransformationsList(),
        answer -> answer.getNextPageToken());
  }

  private Batches<TextItem> batches(List<TextItem> items) {
    return new Batches<>(
        items.iterator(),
        transport.settings.batchItems,
        transport.settings.batchBytes,
        item -> item.getTextBytes().size());
  }

  /** Any number of texts, transformed, in their order, with outcome, measures and provenance. */
  public List<TransformResult> transform(List<TextItem> items, TransformSpec spec) {
    List<TransformResult> made = new ArrayList<>();
    try (CloseableIterator<IsomerClient.Part<TransformResponse>> answers =
        transport.parts(
            batches(items),
            TransformServiceGrpc.getTransformMethod(),
            some -> TransformRequest.newBuilder().setSpec(spec).addAllItems(some).build())) {
      while (answers.hasNext()) {
        IsomerClient.Part<TransformResponse> part = answers.next();
        for (TransformResult one : part.answer.getResultsList()) {
          made.add(one.toBuilder().setIndex(one.getIndex() + part.start).build());
        }
      }
    }
    return made;
  }

  /**
   * Each result as it comes, in any order: its index says which text it is. It is made once,
   * without retries. Close it to cancel it.
   */
  public CloseableIterator<TransformResult> transformStream(
      List<TextItem> items, TransformSpec spec) {
    Batches<TextItem> batches = batches(items);
    return new CloseableIterator<TransformResult>() {
      private CloseableIterator<TransformStreamResponse> stream;
      private int start;
      private TransformResult held;

      @Override
      public boolean hasNext() {
        try {
          while (held == null) {
            if (stream != null && stream.hasNext()) {
              TransformStreamResponse answer = stream.next();
              if (answer.hasResult()) {
                int index = answer.getResult().getIndex() + start;
                held = answer.getResult().toBuilder().setIndex(index).build();
              }
            } else if (batches.hasNext()) {
              Batches.Batch<TextItem> batch = batches.next();
              start = batch.start;
              TransformStreamRequest request =
                  TransformStreamRequest.newBuilder()
                      .setSpec(spec)
                      .addAllItems(batch.items)
                      .build();
              stream =
                  transport.stream(TransformServiceGrpc.getTransformStreamMethod(), request);
            } else {
              return false;
            }
          }
          return true;
        } catch (IsomerException error) {
          close();
          throw error.moved(start);
        }
      }

      @Override
      public TransformResult next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        TransformResult one = held;
        held = null;
        return one;
      }

      @Override
      public void close() {
        if (stream != null) {
          stream.close();
        }
      }
    };
  }

  /** Estimates the requests of {@link #transform} to the generator. It costs nothing. */
  public GenerationEstimate estimate(List<TextItem> items, TransformSpec spec) {
    EstimateRequest request =
        EstimateRequest.newBuilder().setSpec(spec).addAllItems(items).build();
    return transport.call(TransformServiceGrpc.getEstimateMethod(), request).getEstimate();
  }

  /** The error checks and measures of pairs of an original and a transformed text. */
  public InspectResponse inspect(InspectRequest request) {
    return transport.call(TransformServiceGrpc.getInspectMethod(), request);
  }

  /** Pairs rated by a language model. */
  public JudgeResponse judge(JudgeRequest request) {
    return transport.call(TransformServiceGrpc.getJudgeMethod(), request);
  }

  /** Variants of texts, without vectors. */
  public List<Variants> augment(List<TextItem> items, AugmentationSpec spec) {
    AugmentRequest request = AugmentRequest.newBuilder().setSpec(spec).addAllItems(items).build();
    return transport.call(AugmentationServiceGrpc.getAugmentMethod(), request).getItemsList();
  }

  /** Vectors pooled of texts and their variants (GASE), and which variants went into each. */
  public static final class Augmented {
    private final Embeddings embeddings;
    private final List<Variants> used;

    Augmented(Embeddings embeddings, List<Variants> used) {
      this.embeddings = embeddings;
      this.used = used;
    }

    /** The vectors. */
    public Embeddings embeddings() {
      return embeddings;
    }

    /** Variants that went into each row, and missing ones. */
    public List<Variants> used() {
      return used;
    }
  }

  /**
   * Vectors pooled of texts and their variants (GASE), in the order of the texts.
   *
   * @param request everything but the texts: encoder, spec with {@link #source sources}, pooling;
   *     with a cascade the evidence of each text
   */
  public Augmented encodeAugmented(List<TextItem> items, EncodeAugmentedRequest request) {
    if (items.isEmpty()) {
      throw IsomerException.invalid("items", "give at least one text", "items is empty");
    }
    if (request.getEvidenceCount() > 0 && request.getEvidenceCount() != items.size()) {
      throw IsomerException.invalid(
          "evidence",
          "give one entry per text, empty where nothing was found",
          request.getEvidenceCount() + " entries for " + items.size() + " texts");
    }
    // The space does not depend on what a search found.
    EncodeAugmentedRequest base = request.toBuilder().clearItems().clearEvidence().build();
    Batches<Integer> batches =
        new Batches<>(
            IntStream.range(0, items.size()).iterator(),
            transport.settings.batchItems,
            transport.settings.batchBytes,
            at -> items.get(at).getTextBytes().size());
    IsomerClient.Checker checker =
        client.checker(EncodeOptions.encoder(base.getEncoderId()), base);
    Embeddings.Joiner joiner = new Embeddings.Joiner(items.size());
    List<Variants> used = new ArrayList<>();
    try (CloseableIterator<IsomerClient.Part<EncodeAugmentedResponse>> answers =
        transport.parts(
            batches,
            AugmentationServiceGrpc.getEncodeAugmentedMethod(),
            some -> {
              EncodeAugmentedRequest.Builder part = base.toBuilder();
              for (int at : some) {
                part.addItems(items.get(at));
                if (request.getEvidenceCount() > 0) {
                  part.addEvidence(request.getEvidence(at));
                }
              }
              return part.build();
            })) {
      while (answers.hasNext()) {
        IsomerClient.Part<EncodeAugmentedResponse> part = answers.next();
        EncodeAugmentedResponse answer = part.answer;
        EncodeResponse same =
            EncodeResponse.newBuilder()
                .setEmbeddings(answer.getEmbeddings())
                .addAllTruncated(answer.getTruncatedList())
                .addAllErrors(answer.getErrorsList())
                .setVectorSpace(answer.getVectorSpace())
                .setUsage(answer.getUsage())
                .build();
        joiner.add(checker.embeddings(same, part.start, part.count));
        for (Variants one : answer.getUsedList()) {
          used.add(one.toBuilder().setIndex(one.getIndex() + part.start).build());
        }
      }
    }
    Embeddings whole = joiner.whole();
    ItemError.failed(whole.errors(), whole);
    return new Augmented(whole, used);
  }
}

package dev.isomer.provider;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Duration;
import com.google.rpc.BadRequest;
import dev.isomer.common.v1.Dtype;
import dev.isomer.common.v1.Matrix;
import dev.isomer.common.v1.Similarity;
import dev.isomer.common.v1.Timing;
import dev.isomer.common.v1.Usage;
import dev.isomer.common.v1.VectorSpace;
import dev.isomer.encoder.v1.Capability;
import dev.isomer.encoder.v1.CountTokensRequest;
import dev.isomer.encoder.v1.CountTokensResponse;
import dev.isomer.encoder.v1.EncodeRequest;
import dev.isomer.encoder.v1.EncodeResponse;
import dev.isomer.encoder.v1.EncodeStreamRequest;
import dev.isomer.encoder.v1.EncodeStreamResponse;
import dev.isomer.encoder.v1.Encoder;
import dev.isomer.encoder.v1.EncoderServiceGrpc;
import dev.isomer.encoder.v1.GetEncoderRequest;
import dev.isomer.encoder.v1.GetEncoderResponse;
import dev.isomer.encoder.v1.Input;
import dev.isomer.encoder.v1.ListEncodersRequest;
import dev.isomer.encoder.v1.ListEncodersResponse;
import dev.isomer.encoder.v1.Output;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** EncoderService in front of a provider. */
final class EncoderService extends EncoderServiceGrpc.EncoderServiceImplBase {
  private final Provider provider;
  private final Description is;

  EncoderService(Provider provider, Description is) {
    this.provider = provider;
    this.is = is;
  }

  /** A status with details as every Isomer server makes them. */
  static RuntimeException refused(
      Status.Code code, String reason, String field, String text, String hint) {
    String message = field.isEmpty() ? text : field + ": " + text;
    com.google.rpc.Status.Builder status =
        com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage(message);
    ByteString info = message(1, reason, 2, "isomer");
    ByteString entry = message(1, "mend", 2, hint);
    status.addDetails(
        Any.newBuilder()
            .setTypeUrl("type.googleapis.com/google.rpc.ErrorInfo")
            .setValue(info.concat(nested(3, entry))));
    if (!field.isEmpty()) {
      BadRequest.FieldViolation violation =
          BadRequest.FieldViolation.newBuilder().setField(field).setDescription(message).build();
      status.addDetails(
          Any.pack(BadRequest.newBuilder().addFieldViolations(violation).build()));
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }

  /** ErrorInfo is written by hand: not every version of its library has it. */
  private static ByteString message(int first, String one, int second, String other) {
    return nested(first, ByteString.copyFromUtf8(one))
        .concat(nested(second, ByteString.copyFromUtf8(other)));
  }

  private static ByteString nested(int field, ByteString value) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    CodedOutputStream output = CodedOutputStream.newInstance(bytes);
    try {
      output.writeBytes(field, value);
      output.flush();
    } catch (IOException impossible) {
      throw new AssertionError("bytes in memory are written", impossible);
    }
    return ByteString.copyFrom(bytes.toByteArray());
  }

  private static RuntimeException invalid(String field, String text, String hint) {
    return refused(Status.Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", field, text, hint);
  }

  private static RuntimeException notServed(String field, String text, String hint) {
    return refused(Status.Code.UNIMPLEMENTED, "NOT_SERVED_YET", field, text, hint);
  }

  private static <R> void answer(StreamObserver<R> to, Supplier<R> call) {
    R made;
    try {
      made = call.get();
    } catch (RuntimeException error) {
      to.onError(error);
      return;
    }
    to.onNext(made);
    to.onCompleted();
  }

  private void known(String id) {
    if (!id.equals(is.id)) {
      throw refused(
          Status.Code.NOT_FOUND,
          "UNKNOWN_ENCODER",
          "encoder_id",
          "no encoder `" + id + "`",
          "ask for `" + is.id + "`");
    }
  }

  private String prompt(String name, String literal) {
    if (name.isEmpty()) {
      return literal;
    }
    if (!is.prompts.containsKey(name)) {
      String hint =
          is.prompts.isEmpty() ? "this encoder has no prompts" : "one of " + is.prompts.keySet();
      throw invalid("prompt_name", "there is no prompt `" + name + "`", hint);
    }
    return is.prompts.get(name);
  }

  private static String digest(String... parts) {
    try {
      MessageDigest sha = MessageDigest.getInstance("SHA-256");
      sha.update(String.join("\0", parts).getBytes(StandardCharsets.UTF_8));
      StringBuilder made = new StringBuilder();
      for (byte one : sha.digest()) {
        made.append(String.format("%02x", one));
      }
      return made.toString();
    } catch (NoSuchAlgorithmException error) {
      throw new AssertionError("every JDK has SHA-256", error);
    }
  }

  private VectorSpace space(String prompt, boolean normalised, int dimensions) {
    return VectorSpace.newBuilder()
        .setDigest(
            digest(is.id, is.version, prompt, "" + normalised, String.valueOf(dimensions)))
        .setModelId(is.id)
        .setWeightsDigest(digest(is.version))
        .setPrompt(prompt)
        .setPooling(is.version)
        .setNormalised(normalised)
        .setDimensions(dimensions)
        .setDtype(Dtype.DTYPE_F32)
        .build();
  }

  private Encoder described() {
    return Encoder.newBuilder()
        .setId(is.id)
        .setRevision(is.version)
        .setWeightsDigest(digest(is.version))
        .setVectorSpace(space("", is.normalises, is.dimensions))
        .setDimensions(is.dimensions)
        .addAllMatryoshkaDimensions(is.matryoshka)
        .setMaxBatchItems(is.maxBatchItems)
        .putAllPrompts(is.prompts)
        .setSimilarity(Similarity.SIMILARITY_COSINE)
        .setNormalises(is.normalises)
        .addDtypes(Dtype.DTYPE_F32)
        .addCapabilities(Capability.CAPABILITY_DENSE)
        .setLoaded(true)
        .build();
  }

  private List<String> texts(EncodeRequest request, String prompt) {
    int count = request.getInputsCount();
    if (count < 1 || count > is.maxBatchItems) {
      throw invalid("inputs", "holds " + count + " texts", "send 1 to " + is.maxBatchItems);
    }
    List<String> texts = new ArrayList<>();
    for (Input input : request.getInputsList()) {
      if (!input.hasText()) {
        throw notServed("inputs[" + texts.size() + "]", "only texts are taken", "send text");
      }
      texts.add(prompt + input.getText());
    }
    return texts;
  }

  private int dimensions(EncodeRequest request) {
    if (!request.hasDimensions() || request.getDimensions() == is.dimensions) {
      return is.dimensions;
    }
    if (!is.matryoshka.contains(request.getDimensions())) {
      String hint = "one of " + is.matryoshka + " or " + is.dimensions;
      throw invalid("dimensions", request.getDimensions() + " is not permitted", hint);
    }
    return request.getDimensions();
  }

  private EncodeResponse encoded(EncodeRequest request) {
    long started = System.nanoTime();
    known(request.getEncoderId());
    Dtype dtype = request.getOutputDtype();
    if (dtype != Dtype.DTYPE_UNSPECIFIED && dtype != Dtype.DTYPE_F32) {
      throw notServed("output_dtype", "only 32-bit floats are given", "ask for DTYPE_F32");
    }
    Output output = request.getOutput();
    if (output != Output.OUTPUT_UNSPECIFIED && output != Output.OUTPUT_TEXT_VECTOR) {
      throw notServed("output", "only one vector a text is given", "ask for OUTPUT_TEXT_VECTOR");
    }
    int columns = dimensions(request);
    String prompt = prompt(request.getPromptName(), request.getLiteralPrompt());
    List<String> texts = texts(request, prompt);
    boolean normalise = request.hasNormalise() ? request.getNormalise() : is.normalises;
    List<float[]> rows = provider.encode(texts);
    if (rows.size() != texts.size()) {
      throw new IllegalStateException(rows.size() + " rows for " + texts.size() + " texts");
    }
    ByteBuffer data =
        ByteBuffer.allocate(Math.multiplyExact(4 * columns, rows.size()))
            .order(ByteOrder.LITTLE_ENDIAN);
    for (float[] row : rows) {
      if (row.length != is.dimensions) {
        throw new IllegalStateException(
            "a row of " + row.length + " columns in place of " + is.dimensions);
      }
      float length = normalise ? length(row, columns) : 1;
      for (int column = 0; column < columns; column++) {
        data.putFloat(row[column] / length);
      }
    }
    data.flip();
    List<Integer> counts = provider.countTokens(texts);
    long tokens = counts.stream().mapToLong(Integer::longValue).sum();
    long took = System.nanoTime() - started;
    Duration total =
        Duration.newBuilder()
            .setSeconds(took / 1_000_000_000)
            .setNanos((int) (took % 1_000_000_000))
            .build();
    return EncodeResponse.newBuilder()
        .setEmbeddings(
            Matrix.newBuilder()
                .setRows(rows.size())
                .setCols(columns)
                .setDtype(Dtype.DTYPE_F32)
                .setData(ByteString.copyFrom(data)))
        .addAllTokenCounts(counts)
        .setVectorSpace(space(prompt, normalise, columns))
        .setUsage(
            Usage.newBuilder().setTexts(texts.size()).setTokens(tokens).setTokensEstimated(true))
        .setTiming(Timing.newBuilder().setTotal(total))
        .build();
  }

  /** Of a row, 1 for a row of zeros. It depends on no other row. */
  private static float length(float[] row, int columns) {
    double sum = 0;
    for (int column = 0; column < columns; column++) {
      sum += (double) row[column] * row[column];
    }
    return sum == 0 ? 1 : (float) Math.sqrt(sum);
  }

  @Override
  public void listEncoders(ListEncodersRequest request, StreamObserver<ListEncodersResponse> to) {
    answer(to, () -> ListEncodersResponse.newBuilder().addEncoders(described()).build());
  }

  @Override
  public void getEncoder(GetEncoderRequest request, StreamObserver<GetEncoderResponse> to) {
    answer(
        to,
        () -> {
          known(request.getId());
          return GetEncoderResponse.newBuilder().setEncoder(described()).build();
        });
  }

  @Override
  public void countTokens(CountTokensRequest request, StreamObserver<CountTokensResponse> to) {
    answer(
        to,
        () -> {
          known(request.getEncoderId());
          String prompt = prompt(request.getPromptName(), request.getLiteralPrompt());
          List<String> texts = new ArrayList<>();
          request.getTextsList().forEach(text -> texts.add(prompt + text));
          return CountTokensResponse.newBuilder()
              .addAllTokenCounts(provider.countTokens(texts))
              .build();
        });
  }

  @Override
  public void encode(EncodeRequest request, StreamObserver<EncodeResponse> to) {
    answer(to, () -> encoded(request));
  }

  @Override
  public StreamObserver<EncodeStreamRequest> encodeStream(
      StreamObserver<EncodeStreamResponse> to) {
    return new StreamObserver<EncodeStreamRequest>() {
      private boolean over;

      @Override
      public void onNext(EncodeStreamRequest one) {
        if (over) {
          return;
        }
        try {
          to.onNext(
              EncodeStreamResponse.newBuilder()
                  .setClientIndex(one.getClientIndex())
                  .setResponse(encoded(one.getRequest()))
                  .build());
        } catch (RuntimeException error) {
          over = true;
          to.onError(error);
        }
      }

      @Override
      public void onError(Throwable error) {
        over = true;
      }

      @Override
      public void onCompleted() {
        if (!over) {
          to.onCompleted();
        }
      }
    };
  }
}

import dev.isomer.client.EncodeOptions;
import dev.isomer.client.IsomerClient;
import dev.isomer.encoder.v1.EncodeRequest;
import dev.isomer.encoder.v1.EncodeResponse;
import dev.isomer.encoder.v1.EncoderServiceGrpc;
import dev.isomer.encoder.v1.Input;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Short texts by this client or the bare stub: {@code Bench client|stub ADDRESS COUNT}. CPU seconds
 * are read from Linux's /proc.
 */
public final class Bench {
  private static final int BATCH = 256;
  private static final int IN_FLIGHT = 4;
  private static final int COLUMNS = 384;
  private static final int WARM_UP = 25;
  private static final int ROUNDS = 10;

  private Bench() {}

  private static List<String> texts(int count) {
    String[] words =
        ("gardener watered roses before breakfast train lisbon cancelled storm cello evening river"
                + " kitchen paint")
            .split(" ");
    List<String> made = new ArrayList<>();
    for (int number = 0; number < count; number++) {
      StringBuilder text = new StringBuilder();
      for (int step : new int[] {1, 3, 5, 7}) {
        text.append(words[(int) ((long) number * step % words.length)]).append(' ');
      }
      made.add(text.append(number).toString());
    }
    return made;
  }

  private static Function<List<String>, FloatBuffer> client(String address) {
    IsomerClient made =
        IsomerClient.builder(address).batchItems(BATCH).inFlight(IN_FLIGHT).build();
    return some -> made.encode(some, EncodeOptions.encoder("wide")).vectors().floats();
  }

  private static Function<List<String>, FloatBuffer> stub(String address) {
    var channel = Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
    var stub = EncoderServiceGrpc.newFutureStub(channel);
    return some -> {
      ByteBuffer joined = ByteBuffer.allocate(4 * COLUMNS * some.size()).order(ByteOrder.LITTLE_ENDIAN);
      Deque<Future<EncodeResponse>> waiting = new ArrayDeque<>();
      try {
        for (int start = 0; start < some.size() || !waiting.isEmpty(); start += BATCH) {
          if (start < some.size()) {
            EncodeRequest.Builder request = EncodeRequest.newBuilder().setEncoderId("wide");
            for (String text : some.subList(start, Math.min(start + BATCH, some.size()))) {
              request.addInputs(Input.newBuilder().setText(text));
            }
            waiting.add(stub.encode(request.build()));
          }
          if (waiting.size() == IN_FLIGHT || start >= some.size()) {
            EncodeResponse answer = waiting.remove().get();
            joined.put(answer.getEmbeddings().getData().asReadOnlyByteBuffer());
          }
        }
        while (!waiting.isEmpty()) {
          joined.put(waiting.remove().get().getEmbeddings().getData().asReadOnlyByteBuffer());
        }
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
      joined.flip();
      return joined.asFloatBuffer();
    };
  }

  /**
   * CPU seconds of this process, without those of the threads that compile Java: after hundreds of
   * requests they still take as much as all others, in one way as in the other, and no service
   * that runs for an hour pays that for each text.
   */
  private static double cpuSeconds() throws IOException {
    long ticks = 0;
    try (Stream<Path> threads = Files.list(Path.of("/proc/self/task"))) {
      for (Path thread : (Iterable<Path>) threads::iterator) {
        // The name is in parentheses, and may have some itself; what follows is numbers.
        String told = Files.readString(thread.resolve("stat"));
        String[] numbers = told.substring(told.lastIndexOf(')') + 2).split(" ");
        if (!told.contains("CompilerThre")) {
          ticks += Long.parseLong(numbers[11]) + Long.parseLong(numbers[12]);
        }
      }
    }
    return ticks / 100.0;
  }

  /** Measures. */
  public static void main(String[] arguments) throws Exception {
    var way = arguments[0].equals("client") ? client(arguments[1]) : stub(arguments[1]);
    int count = Integer.parseInt(arguments[2]);
    List<String> some = texts(count);
    // Code is interpreted until it is compiled.
    for (int round = 0; round < WARM_UP; round++) {
      way.apply(some);
    }
    double before = cpuSeconds();
    long started = System.nanoTime();
    FloatBuffer vectors = null;
    for (int round = 0; round < ROUNDS; round++) {
      vectors = way.apply(some);
    }
    double took = (System.nanoTime() - started) / 1e9 / ROUNDS;
    double cpu = (cpuSeconds() - before) / ROUNDS;
    if (vectors.remaining() != count * COLUMNS) {
      throw new IllegalStateException(vectors.remaining() + " numbers");
    }
    double sum = 0;
    while (vectors.hasRemaining()) {
      sum += vectors.get();
    }
    String status = Files.readString(Path.of("/proc/self/status"));
    long peak = Long.parseLong(status.replaceAll("(?s).*VmHWM:\\s+(\\d+) kB.*", "$1")) * 1024;
    System.out.printf(
        "{\"seconds\": %f, \"cpu\": %f, \"peak\": %d, \"sum\": %f}%n", took, cpu, peak, sum);
    System.exit(0);
  }
}

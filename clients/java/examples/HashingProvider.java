import dev.isomer.client.IsomerClient;
import dev.isomer.provider.Description;
import dev.isomer.provider.Provider;
import dev.isomer.provider.ProviderServer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.zip.CRC32;

/**
 * An encoder of one's own: two methods, and {@code ProviderServer.serve} does the rest. With {@code
 * --register} it registers with the gateway in ISOMER_SERVER. Words and their trigrams are hashed
 * into 256 columns: no model, no file. Put yours in their place.
 */
public final class HashingProvider implements Provider {
  @Override
  public Description describe() {
    return new Description("java-hashing-256", "java-hashing/1", 256)
        .prompt("query", "query: ")
        .matryoshka(64)
        .matryoshka(128);
  }

  @Override
  public List<float[]> encode(List<String> texts) {
    return texts.stream().map(HashingProvider::vector).collect(Collectors.toList());
  }

  private static float[] vector(String text) {
    float[] row = new float[256];
    for (String word : text.toLowerCase(Locale.ROOT).split("\\s+")) {
      List<String> parts = new ArrayList<>(List.of(word));
      String marked = "<" + word + ">";
      for (int start = 0; start + 3 <= marked.length(); start++) {
        parts.add(marked.substring(start, start + 3));
      }
      for (String part : parts) {
        CRC32 digest = new CRC32();
        digest.update(part.getBytes(StandardCharsets.UTF_8));
        row[(int) digest.getValue() & 0xff] += (digest.getValue() >> 8 & 1) == 0 ? 1 : -1;
      }
    }
    // Vectors are of unit length: a row of zeros would have none.
    row[0] += Arrays.equals(row, new float[256]) ? 1 : 0;
    return row;
  }

  /** Serves it. */
  public static void main(String[] arguments) throws Exception {
    boolean register = List.of(arguments).contains("--register");
    ProviderServer.serve(new HashingProvider(), register ? IsomerClient.fromEnvironment() : null);
  }
}

package dev.isomer.client;

import dev.isomer.common.v1.Dtype;
import dev.isomer.encoder.v1.EncodeRequest;
import dev.isomer.encoder.v1.Encoder;
import dev.isomer.encoder.v1.Output;
import dev.isomer.encoder.v1.Priority;
import dev.isomer.encoder.v1.Truncation;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Everything of an encode call but its texts. At most one of {@link #prompt}, {@link #promptName}
 * and {@link #role} may be given; without one the encoder's default applies.
 */
public final class EncodeOptions {
  /** Parts of a role, and other names of the part {@code document}, as the server has them. */
  private static final Map<String, List<String>> PARTS =
      Map.of(
          "query", List.of(),
          "document", List.of("passage", "corpus"),
          "passage", List.of("document", "corpus"),
          "corpus", List.of("document", "passage"));

  private final String encoder;
  private String prompt;
  private String promptName;
  private String role;
  private int dimensions;
  private Boolean normalise;
  private Dtype dtype = Dtype.DTYPE_F32;
  private Truncation truncation = Truncation.TRUNCATION_UNSPECIFIED;
  private Priority priority = Priority.PRIORITY_UNSPECIFIED;
  private VectorCollection collection;
  private boolean partial;
  private int maxActiveDimensions;

  private EncodeOptions(String encoder) {
    this.encoder = encoder;
  }

  /** Options for the encoder with this id. */
  public static EncodeOptions encoder(String id) {
    if (id == null || id.isEmpty()) {
      throw IsomerException.invalid("encoder", "name one: encoders() lists them", "encoder is empty");
    }
    return new EncodeOptions(id);
  }

  /** Puts a text before each one; empty for none. */
  public EncodeOptions prompt(String text) {
    this.prompt = text;
    return this;
  }

  /** Takes one of the encoder's prompts, by its name. */
  public EncodeOptions promptName(String name) {
    this.promptName = name;
    return this;
  }

  /**
   * Role of the texts, e.g. {@code query}, {@code document}, {@code Retrieval-query}: the encoder's
   * own prompt for it, where it has one.
   */
  public EncodeOptions role(String what) {
    this.role = what;
    return this;
  }

  /** Number of columns to keep (Matryoshka). */
  public EncodeOptions dimensions(int columns) {
    if (columns < 1) {
      throw IsomerException.invalid("dimensions", "give 1 or more", "dimensions is " + columns);
    }
    this.dimensions = columns;
    return this;
  }

  /** Whether to scale to unit length; by default as the encoder does. */
  public EncodeOptions normalise(boolean scale) {
    this.normalise = scale;
    return this;
  }

  /** Type of the elements; 32-bit floats unless it is given. */
  public EncodeOptions dtype(Dtype type) {
    if (Matrix.rowBytes(1, type) == 0) {
      throw IsomerException.invalid(
          "dtype", "one of F32, F16, INT8, UBINARY", "there is no dtype " + type);
    }
    this.dtype = type;
    return this;
  }

  /** Handling of too long a text; the tail is cut by default. */
  public EncodeOptions truncation(Truncation how) {
    this.truncation = how;
    return this;
  }

  /** Interactive unless it is given; batch in a stream. */
  public EncodeOptions priority(Priority of) {
    this.priority = of;
    return this;
  }

  /** Where the vectors are kept: those of another space throw. */
  public EncodeOptions collection(VectorCollection kept) {
    this.collection = kept;
    return this;
  }

  /** Lets texts that fail leave rows of zeros; without it they throw. */
  public EncodeOptions partial() {
    this.partial = true;
    return this;
  }

  /** Number of entries to keep of each sparse vector, the largest ones; all by default. */
  public EncodeOptions maxActiveDimensions(int most) {
    if (most < 1) {
      throw IsomerException.invalid(
          "max_active_dimensions", "give 1 or more", "maxActiveDimensions is " + most);
    }
    this.maxActiveDimensions = most;
    return this;
  }

  String encoder() {
    return encoder;
  }

  int dimensions() {
    return dimensions;
  }

  Dtype dtype() {
    return dtype;
  }

  VectorCollection collection() {
    return collection;
  }

  boolean isPartial() {
    return partial;
  }

  String prompt() {
    return prompt;
  }

  String promptName() {
    return promptName;
  }

  EncodeOptions copy() {
    EncodeOptions made = new EncodeOptions(encoder);
    made.prompt = prompt;
    made.promptName = promptName;
    made.role = role;
    made.dimensions = dimensions;
    made.normalise = normalise;
    made.dtype = dtype;
    made.truncation = truncation;
    made.priority = priority;
    made.collection = collection;
    made.partial = partial;
    made.maxActiveDimensions = maxActiveDimensions;
    return made;
  }

  EncodeOptions forStream() {
    EncodeOptions made = copy();
    if (priority == Priority.PRIORITY_UNSPECIFIED) {
      made.priority = Priority.PRIORITY_BATCH;
    }
    return made;
  }

  /** A request without texts. Of equal ones the answers are in one space. */
  EncodeRequest request(Encoder known, boolean tokens) {
    if (Stream.of(prompt, promptName, role).filter(one -> one != null).count() > 1) {
      throw IsomerException.invalid(
          "prompt", "give one of them", "prompt, promptName and role are given together");
    }
    EncodeRequest.Builder made =
        EncodeRequest.newBuilder()
            .setEncoderId(encoder)
            .setTruncation(truncation)
            .setPriority(priority)
            .setOutputDtype(dtype);
    String name = role == null ? promptName : promptOfRole(known, role);
    if (name != null) {
      made.setPromptName(name);
    } else if (prompt != null) {
      made.setLiteralPrompt(prompt);
    }
    if (dimensions > 0) {
      made.setDimensions(dimensions);
    }
    if (normalise != null) {
      made.setNormalise(normalise);
    }
    if (tokens) {
      made.setOutput(Output.OUTPUT_TOKEN_VECTORS);
    }
    if (maxActiveDimensions > 0) {
      made.setMaxActiveDimensions(maxActiveDimensions);
    }
    return made.build();
  }

  /**
   * The encoder's own prompt for a role; null where it has none. The whole role goes before its
   * task, and the task before its part; letter case, hyphens and underscores do not matter. These
   * are the rules of isomer.eval.v1.EncoderPrompt.
   */
  static String promptOfRole(Encoder encoder, String role) {
    Map<String, String> names = new HashMap<>();
    encoder.getPromptNamesList().forEach(name -> names.put(plain(name), name));
    encoder.getPromptsMap().keySet().forEach(name -> names.put(plain(name), name));
    int dash = role.lastIndexOf('-');
    String part = role.substring(dash + 1);
    boolean divided = dash > 0 && PARTS.containsKey(part.toLowerCase(Locale.ROOT));
    List<String> wanted = divided ? List.of(role, role.substring(0, dash), part) : List.of(role);
    for (String one : wanted) {
      int before = one.lastIndexOf('-') + 1;
      String last = one.substring(before);
      String found = names.get(plain(one));
      for (String other : PARTS.getOrDefault(last.toLowerCase(Locale.ROOT), List.of())) {
        found = found == null ? names.get(plain(one.substring(0, before) + other)) : found;
      }
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  private static String plain(String role) {
    return role.toLowerCase(Locale.ROOT).replace("-", "").replace("_", "");
  }
}

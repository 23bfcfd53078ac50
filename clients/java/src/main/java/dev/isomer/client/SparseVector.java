package dev.isomer.client;

import dev.isomer.encoder.v1.EncodeResponse;
import java.util.ArrayList;
import java.util.List;

/**
 * Weights of tokens of the encoder's vocabulary: ascending token ids (unsigned), and one weight
 * above 0 each.
 */
public final class SparseVector {
  private final int[] indices;
  private final float[] values;

  private SparseVector(int[] indices, float[] values) {
    this.indices = indices;
    this.values = values;
  }

  /** Token ids. */
  public int[] indices() {
    return indices.clone();
  }

  /** The weight of each id. */
  public float[] values() {
    return values.clone();
  }

  /** One answer's sparse vectors, one per text. */
  static List<SparseVector> of(EncodeResponse answer, int count) {
    if (answer.getSparseEmbeddingsCount() != count) {
      throw IsomerException.badAnswer(
          "ask again",
          answer.getSparseEmbeddingsCount() + " sparse vectors were answered to " + count
              + " texts");
    }
    List<SparseVector> made = new ArrayList<>();
    for (dev.isomer.encoder.v1.SparseVector one : answer.getSparseEmbeddingsList()) {
      int[] indices = one.getIndicesList().stream().mapToInt(Integer::intValue).toArray();
      float[] values = new float[one.getValuesCount()];
      boolean sound = indices.length == values.length;
      for (int entry = 0; sound && entry < values.length; entry++) {
        values[entry] = one.getValues(entry);
        boolean ascending =
            entry == 0 || Integer.compareUnsigned(indices[entry], indices[entry - 1]) > 0;
        sound = ascending && values[entry] > 0 && !Float.isInfinite(values[entry]);
      }
      if (!sound) {
        throw IsomerException.badAnswer(
            "ask again; if it stays so, the server is at fault",
            "the sparse vector of text " + made.size()
                + " has not one weight above 0 for each of ascending indices");
      }
      made.add(new SparseVector(indices, values));
    }
    return made;
  }
}

package dev.isomer.provider;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Description of an encoder, as callers receive it. */
public final class Description {
  final String id;
  final String version;
  final int dimensions;
  final Map<String, String> prompts = new TreeMap<>();
  final List<Integer> matryoshka = new ArrayList<>();
  int maxBatchItems = 512;
  boolean normalises = true;

  /**
   * An encoder.
   *
   * @param version changes whenever equal texts begin to get other vectors: it is part of the
   *     vector space
   */
  public Description(String id, String version, int dimensions) {
    this.id = id;
    this.version = version;
    this.dimensions = dimensions;
  }

  /** Adds a prompt: text that is put before each text. */
  public Description prompt(String name, String text) {
    prompts.put(name, text);
    return this;
  }

  /** Adds a smaller number of columns that the vectors may be cut to. */
  public Description matryoshka(int columns) {
    matryoshka.add(columns);
    return this;
  }

  /** Maximum number of texts of a request; 512 by default. */
  public Description maxBatchItems(int count) {
    this.maxBatchItems = count;
    return this;
  }

  /** Vectors are not of unit length, unless a request asks for it. */
  public Description unnormalised() {
    this.normalises = false;
    return this;
  }
}

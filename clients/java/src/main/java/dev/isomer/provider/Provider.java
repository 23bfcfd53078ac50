package dev.isomer.provider;

import java.util.List;
import java.util.stream.Collectors;

/**
 * An encoder of one's own. Several threads call it at once.
 *
 * <p>A text's vector must depend on the text alone: not on the others of its batch, not on their
 * order. CheckProvider ({@code isomer providers check}) looks at that, and at what else a provider
 * owes its callers.
 */
public interface Provider {
  /** Description of the encoder. It is called once. */
  Description describe();

  /**
   * A row of as many floats as the description says for each text. Prompts are in front of the
   * texts already.
   */
  List<float[]> encode(List<String> texts);

  /** Tokens of each text; words, unless a provider says better. They are marked as estimates. */
  default List<Integer> countTokens(List<String> texts) {
    return texts.stream()
        .map(text -> text.isBlank() ? 0 : text.strip().split("\\s+").length)
        .collect(Collectors.toList());
  }
}

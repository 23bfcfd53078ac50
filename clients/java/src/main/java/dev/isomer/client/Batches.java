package dev.isomer.client;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.ToIntFunction;

/**
 * Divides items, in their order, into requests, each with the place of its first item in the
 * caller's list. An item above the maximum of bytes is a request of its own.
 */
final class Batches<T> implements Iterator<Batches.Batch<T>> {
  /** The items of a request. */
  static final class Batch<T> {
    final int start;
    final List<T> items;

    Batch(int start, List<T> items) {
      this.start = start;
      this.items = items;
    }
  }

  private final Iterator<? extends T> items;
  private final int mostItems;
  private final int mostBytes;
  private final ToIntFunction<T> size;
  private int start;
  private T held;

  Batches(Iterator<? extends T> items, int mostItems, int mostBytes, ToIntFunction<T> size) {
    this.items = items;
    this.mostItems = mostItems;
    this.mostBytes = mostBytes;
    this.size = size;
  }

  /** Bytes of a text in a request, about. */
  static int size(String text) {
    int size = text.length();
    for (int place = 0; place < text.length(); place++) {
      if (text.charAt(place) > 0x7f) {
        return 3 * text.length();
      }
    }
    return size;
  }

  @Override
  public boolean hasNext() {
    return held != null || items.hasNext();
  }

  @Override
  public Batch<T> next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    List<T> some = new ArrayList<>();
    long bytes = 0;
    while (some.size() < mostItems && hasNext()) {
      T item = held == null ? items.next() : held;
      held = null;
      if (item == null) {
        String field = "inputs[" + (start + some.size()) + "]";
        throw IsomerException.invalid(field, "give a text", field + " is null");
      }
      bytes += size.applyAsInt(item);
      if (bytes > mostBytes && !some.isEmpty()) {
        held = item;
        break;
      }
      some.add(item);
    }
    Batch<T> made = new Batch<>(start, some);
    start += some.size();
    return made;
  }
}

package dev.isomer.client;

import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** The entries of every page, each page fetched when the one before is used up. */
final class Pages<A, E> implements Iterator<E> {
  private final Function<String, A> fetch;
  private final Function<A, List<E>> entries;
  private final Function<A, String> next;
  private Iterator<E> page = Collections.emptyIterator();
  private String token = "";
  private boolean last;

  private Pages(
      Function<String, A> fetch, Function<A, List<E>> entries, Function<A, String> next) {
    this.fetch = fetch;
    this.entries = entries;
    this.next = next;
  }

  static <A, E> Stream<E> of(
      Function<String, A> fetch, Function<A, List<E>> entries, Function<A, String> next) {
    Spliterator<E> parts =
        Spliterators.spliteratorUnknownSize(
            new Pages<>(fetch, entries, next), Spliterator.ORDERED);
    return StreamSupport.stream(parts, false);
  }

  @Override
  public boolean hasNext() {
    while (!page.hasNext() && !last) {
      A answer = fetch.apply(token);
      page = entries.apply(answer).iterator();
      token = next.apply(answer);
      last = token.isEmpty();
    }
    return page.hasNext();
  }

  @Override
  public E next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return page.next();
  }
}

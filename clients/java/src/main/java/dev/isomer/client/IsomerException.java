package dev.isomer.client;

import com.google.protobuf.Any;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.WireFormat;
import com.google.rpc.BadRequest;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A call that failed, or an argument that cannot be meant. The nested classes are the kinds that
 * callers distinguish; {@link #code()} has the others.
 */
public class IsomerException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Metadata of google.rpc.ErrorInfo under which servers put the hint. */
  private static final String HINT = "mend";

  /** A place in a list of the request. */
  private static final Pattern INDEXED =
      Pattern.compile("\\b(inputs|items|documents|texts|pairs)\\[(\\d+)\\]");

  private final Status.Code code;
  private final String reason;
  private final String text;
  private final String field;
  private final String hint;
  private final Duration retryAfter;
  private final transient Map<String, String> metadata;
  private final String method;
  private final int attempts;

  IsomerException(Facts facts) {
    super(facts.text, facts.cause);
    this.code = facts.code;
    this.reason = facts.reason;
    this.text = facts.text;
    this.field = facts.field;
    this.hint = facts.hint;
    this.retryAfter = facts.retryAfter;
    this.metadata = Collections.unmodifiableMap(facts.metadata);
    this.method = facts.method;
    this.attempts = facts.attempts;
  }

  /** The message, one sentence that names the field, with the hint. */
  @Override
  public String getMessage() {
    return hint.isEmpty() ? text : text + " (" + hint + ")";
  }

  /** The gRPC code. */
  public Status.Code code() {
    return code;
  }

  /** The server's stable reason, e.g. {@code UNKNOWN_ENCODER}; empty where there is none. */
  public String reason() {
    return reason;
  }

  /** The message, without the hint. */
  public String text() {
    return text;
  }

  /**
   * Path of the invalid field, e.g. {@code inputs[3].text}; empty where there is
   * none. An index refers to the caller's list, however it was split into requests.
   */
  public String field() {
    return field;
  }

  /** The hint; empty if there is none. */
  public String hint() {
    return hint;
  }

  /** How long to wait before trying again makes sense, where the server says so. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /** Further facts, e.g. {@code scope}. */
  public Map<String, String> metadata() {
    return metadata == null ? Map.of() : metadata;
  }

  /** The rpc, e.g. {@code isomer.encoder.v1.EncoderService/Encode}; empty where none was made. */
  public String method() {
    return method;
  }

  /** How often it was made. */
  public int attempts() {
    return attempts;
  }

  /** Something in the request cannot be meant; {@link #field()} says what. */
  public static final class InvalidArgument extends IsomerException {
    private static final long serialVersionUID = 1L;

    InvalidArgument(Facts facts) {
      super(facts);
    }
  }

  /** An encoder, generator, run, key, … that does not exist. */
  public static final class NotFound extends IsomerException {
    private static final long serialVersionUID = 1L;

    NotFound(Facts facts) {
      super(facts);
    }
  }

  /** No key, or one that is unknown, revoked or expired: see {@link #reason()}. */
  public static final class Unauthenticated extends IsomerException {
    private static final long serialVersionUID = 1L;

    Unauthenticated(Facts facts) {
      super(facts);
    }
  }

  /** A key without the scope that is needed: see {@code metadata().get("scope")}. */
  public static final class PermissionDenied extends IsomerException {
    private static final long serialVersionUID = 1L;

    PermissionDenied(Facts facts) {
      super(facts);
    }
  }

  /** Overload, a rate limit or a spent budget. */
  public static final class ResourceExhausted extends IsomerException {
    private static final long serialVersionUID = 1L;

    ResourceExhausted(Facts facts) {
      super(facts);
    }
  }

  /**
   * This client is older than any that the server serves: {@code metadata().get("oldest_client")}
   * says which it serves.
   */
  public static final class ClientTooOld extends IsomerException {
    private static final long serialVersionUID = 1L;

    ClientTooOld(Facts facts) {
      super(facts);
    }
  }

  /** The server, or something behind it, cannot be reached. */
  public static final class Unavailable extends IsomerException {
    private static final long serialVersionUID = 1L;

    Unavailable(Facts facts) {
      super(facts);
    }
  }

  /** No answer within the time allowed. */
  public static final class DeadlineExceeded extends IsomerException {
    private static final long serialVersionUID = 1L;

    DeadlineExceeded(Facts facts) {
      super(facts);
    }
  }

  /** The caller cancelled, or was interrupted. */
  public static final class Cancelled extends IsomerException {
    private static final long serialVersionUID = 1L;

    Cancelled(Facts facts) {
      super(facts);
    }
  }

  /** An answer that does not fit its request: too few rows, bytes that are missing. */
  public static final class BadAnswer extends IsomerException {
    private static final long serialVersionUID = 1L;

    BadAnswer(Facts facts) {
      super(facts);
    }
  }

  /**
   * Vectors of two spaces where one is expected. They must not be compared or stored together.
   */
  public static final class SpaceMismatch extends IsomerException {
    private static final long serialVersionUID = 1L;
    private final transient VectorSpace expected;
    private final transient VectorSpace found;

    SpaceMismatch(Facts facts, VectorSpace expected, VectorSpace found) {
      super(facts);
      this.expected = expected;
      this.found = found;
    }

    /** The space of the vectors before. */
    public VectorSpace expected() {
      return expected;
    }

    /** The space of the others. */
    public VectorSpace found() {
      return found;
    }

    /** Names of the fields that differ, the digest last, which follows from the others. */
    public List<String> differing() {
      return expected.differing(found);
    }
  }

  /** Some texts of a list have no vector, others have. */
  public static final class TextsFailed extends IsomerException {
    private static final long serialVersionUID = 1L;
    private final transient List<ItemError> errors;
    private final transient Embeddings embeddings;

    TextsFailed(Facts facts, List<ItemError> errors, Embeddings embeddings) {
      super(facts);
      this.errors = errors;
      this.embeddings = embeddings;
    }

    /** The texts that failed. */
    public List<ItemError> errors() {
      return errors;
    }

    /** The vectors, rows of zeros for these; empty where the call has none. */
    public Optional<Embeddings> embeddings() {
      return Optional.ofNullable(embeddings);
    }
  }

  /** Properties of an exception. */
  static final class Facts {
    Status.Code code = Status.Code.UNKNOWN;
    String reason = "";
    String text = "";
    String field = "";
    String hint = "";
    Duration retryAfter;
    Map<String, String> metadata = new TreeMap<>();
    String method = "";
    int attempts = 1;
    Throwable cause;

    Facts(Status.Code code, String text) {
      this.code = code;
      this.text = text;
    }

    Facts field(String field) {
      this.field = field;
      return this;
    }

    Facts hint(String hint) {
      this.hint = hint;
      return this;
    }

    Facts reason(String reason) {
      this.reason = reason;
      return this;
    }

    Facts cause(Throwable cause) {
      this.cause = cause;
      return this;
    }

    IsomerException exception() {
      if (reason.equals("CLIENT_TOO_OLD")) {
        return new ClientTooOld(this);
      }
      switch (code) {
        case INVALID_ARGUMENT:
          return new InvalidArgument(this);
        case NOT_FOUND:
          return new NotFound(this);
        case UNAUTHENTICATED:
          return new Unauthenticated(this);
        case PERMISSION_DENIED:
          return new PermissionDenied(this);
        case RESOURCE_EXHAUSTED:
          return new ResourceExhausted(this);
        case UNAVAILABLE:
          return new Unavailable(this);
        case DEADLINE_EXCEEDED:
          return new DeadlineExceeded(this);
        case CANCELLED:
          return new Cancelled(this);
        case DATA_LOSS:
          return new BadAnswer(this);
        default:
          return new IsomerException(this);
      }
    }

    private void read(Any detail) throws IOException {
      String type = detail.getTypeUrl().substring(detail.getTypeUrl().lastIndexOf('/') + 1);
      switch (type) {
        case "google.rpc.ErrorInfo":
          readErrorInfo(detail.getValue().newCodedInput());
          break;
        case "google.rpc.BadRequest":
          BadRequest bad = BadRequest.parseFrom(detail.getValue());
          if (bad.getFieldViolationsCount() > 0) {
            field = bad.getFieldViolations(0).getField();
          }
          break;
        case "google.rpc.RetryInfo":
          com.google.protobuf.Duration wait =
              RetryInfo.parseFrom(detail.getValue()).getRetryDelay();
          retryAfter = Duration.ofSeconds(wait.getSeconds(), wait.getNanos());
          break;
        default:
          break;
      }
    }

    /** ErrorInfo is read by hand: not every version of its library has it. */
    private void readErrorInfo(CodedInputStream input) throws IOException {
      for (int tag = input.readTag(); tag != 0; tag = input.readTag()) {
        switch (WireFormat.getTagFieldNumber(tag)) {
          case 1:
            reason = input.readStringRequireUtf8();
            break;
          case 3:
            CodedInputStream entry = input.readBytes().newCodedInput();
            String key = "";
            String value = "";
            for (int part = entry.readTag(); part != 0; part = entry.readTag()) {
              if (WireFormat.getTagFieldNumber(part) == 1) {
                key = entry.readStringRequireUtf8();
              } else {
                value = entry.readStringRequireUtf8();
              }
            }
            metadata.put(key, value);
            break;
          default:
            input.skipField(tag);
        }
      }
      String found = metadata.remove(HINT);
      hint = found == null ? "" : found;
    }
  }

  static IsomerException invalid(String field, String hint, String text) {
    return new Facts(Status.Code.INVALID_ARGUMENT, text)
        .reason("INVALID_ARGUMENT")
        .field(field)
        .hint(hint)
        .exception();
  }

  static IsomerException badAnswer(String hint, String text) {
    return new Facts(Status.Code.DATA_LOSS, text).hint(hint).exception();
  }

  static IsomerException cancelled(String method, int attempts) {
    Facts facts = new Facts(Status.Code.CANCELLED, "the call was cancelled");
    facts.method = method;
    facts.attempts = attempts;
    return facts.exception();
  }

  /**
   * Whether a server closed the connection under a call. grpc-java takes the code from the HTTP/2
   * error that the server closed with, e.g. INTERNAL; gRPC's other clients say UNAVAILABLE.
   */
  private static boolean brokeOff(Status status) {
    String said = status.getDescription();
    return said != null && said.startsWith("Abrupt GOAWAY closed ");
  }

  /** The exception for a failed call, with what its details say. */
  static IsomerException of(Throwable error, String method, int attempts) {
    if (error instanceof IsomerException) {
      return (IsomerException) error;
    }
    Status status = Status.fromThrowable(error);
    String said = status.getDescription();
    if (said == null || said.isEmpty()) {
      said = status.getCode().name();
    }
    Throwable cause = status.getCause();
    if (cause != null && status.getCode() == Status.Code.UNAVAILABLE) {
      // gRPC says `io exception`; what it was is in the cause.
      said = said + ": " + cause.getMessage();
    }
    Status.Code code = brokeOff(status) ? Status.Code.UNAVAILABLE : status.getCode();
    Facts facts = new Facts(code, said).cause(error);
    facts.method = method;
    facts.attempts = attempts;
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    if (details != null) {
      for (Any detail : details.getDetailsList()) {
        try {
          facts.read(detail);
        } catch (InvalidProtocolBufferException broken) {
          // A proxy may have cut it. The code and the message are still there.
          continue;
        } catch (IOException impossible) {
          throw new AssertionError("bytes in memory are read", impossible);
        }
      }
    }
    return facts.exception();
  }

  /**
   * The same with places in lists counted from {@code start}: a request of several may hold any
   * part of a list. Requests refused before they were sent have their index already.
   */
  IsomerException moved(int start) {
    if (start == 0 || method.isEmpty()) {
      return this;
    }
    Facts facts = new Facts(code, moved(text, start)).reason(reason).hint(hint);
    facts.field = moved(field, start);
    facts.retryAfter = retryAfter;
    facts.metadata = new TreeMap<>(metadata());
    facts.method = method;
    facts.attempts = attempts;
    facts.cause = getCause();
    return facts.exception();
  }

  private static String moved(String text, int start) {
    return INDEXED
        .matcher(text)
        .replaceAll(
            found ->
                Matcher.quoteReplacement(
                    found.group(1) + "[" + (Long.parseLong(found.group(2)) + start) + "]"));
  }
}

package dev.isomer.client;

import com.google.protobuf.FieldMask;
import dev.isomer.gateway.v1.AccessServiceGrpc;
import dev.isomer.gateway.v1.ApiKey;
import dev.isomer.gateway.v1.AuditEvent;
import dev.isomer.gateway.v1.CreateKeyRequest;
import dev.isomer.gateway.v1.CreateKeyResponse;
import dev.isomer.gateway.v1.GetKeyRequest;
import dev.isomer.gateway.v1.ListAuditEventsRequest;
import dev.isomer.gateway.v1.ListAuditEventsResponse;
import dev.isomer.gateway.v1.ListKeysRequest;
import dev.isomer.gateway.v1.RevokeKeyRequest;
import dev.isomer.gateway.v1.UpdateKeyRequest;
import java.util.List;
import java.util.stream.Stream;

/** AccessService: API keys and their permissions. It needs the scope {@code admin}. */
public final class Keys {
  private final Transport transport;

  Keys(Transport transport) {
    this.transport = transport;
  }

  /** A key with its text, which no later call shows. */
  public static final class NewKey {
    private final ApiKey record;
    private final String secret;

    NewKey(ApiKey record, String secret) {
      this.record = record;
      this.secret = secret;
    }

    /** Its id. */
    public String id() {
      return record.getId();
    }

    /** The key without its text. */
    public ApiKey record() {
      return record;
    }

    /** Its text. */
    public String secret() {
      return secret;
    }

    /** Without the text, for logs. */
    @Override
    public String toString() {
      return "NewKey(" + id() + ")";
    }
  }

  /** Makes a key of the fields that are set: name, scopes, limits, expire_time. */
  public NewKey create(ApiKey key) {
    CreateKeyResponse made =
        transport.call(
            AccessServiceGrpc.getCreateKeyMethod(),
            CreateKeyRequest.newBuilder().setKey(key).build());
    return new NewKey(made.getKey(), made.getSecret());
  }

  /** A key with what it has used, without its text. */
  public ApiKey get(String id) {
    GetKeyRequest request = GetKeyRequest.newBuilder().setId(id).build();
    return transport.call(AccessServiceGrpc.getGetKeyMethod(), request).getKey();
  }

  /** Keys, revoked ones too, oldest first. */
  public Stream<ApiKey> list() {
    return Pages.of(
        page ->
            transport.call(
                AccessServiceGrpc.getListKeysMethod(),
                ListKeysRequest.newBuilder().setPageToken(page).build()),
        answer -> answer.getKeysList(),
        answer -> answer.getNextPageToken());
  }

  /** Changes {@code name}, {@code scopes}, {@code limits} or {@code expire_time} of a key. */
  public ApiKey update(ApiKey key, List<String> fields) {
    UpdateKeyRequest request =
        UpdateKeyRequest.newBuilder()
            .setKey(key)
            .setUpdateMask(FieldMask.newBuilder().addAllPaths(fields))
            .build();
    return transport.call(AccessServiceGrpc.getUpdateKeyMethod(), request).getKey();
  }

  /** Ends a key for good. */
  public ApiKey revoke(String id) {
    RevokeKeyRequest request = RevokeKeyRequest.newBuilder().setId(id).build();
    return transport.call(AccessServiceGrpc.getRevokeKeyMethod(), request).getKey();
  }

  /** Actions of administrators after an event (0: from the first), oldest first. */
  public Stream<AuditEvent> audit(long after) {
    return Pages.of(
        page -> {
          long from = page.isEmpty() ? after : Long.parseLong(page);
          return transport.call(
              AccessServiceGrpc.getListAuditEventsMethod(),
              ListAuditEventsRequest.newBuilder().setAfter(from).build());
        },
        ListAuditEventsResponse::getEventsList,
        answer -> {
          int count = answer.getEventsCount();
          long last = count == 0 ? 0 : answer.getEvents(count - 1).getSeq();
          return count == 0 || last >= answer.getHeadSeq() ? "" : String.valueOf(last);
        });
  }
}

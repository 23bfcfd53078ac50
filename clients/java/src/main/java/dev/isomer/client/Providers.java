package dev.isomer.client;

import com.google.protobuf.FieldMask;
import dev.isomer.gateway.v1.CheckProviderRequest;
import dev.isomer.gateway.v1.CheckProviderResponse;
import dev.isomer.gateway.v1.CreateProviderRequest;
import dev.isomer.gateway.v1.DeleteProviderRequest;
import dev.isomer.gateway.v1.GetProviderRequest;
import dev.isomer.gateway.v1.ListProvidersRequest;
import dev.isomer.gateway.v1.Provider;
import dev.isomer.gateway.v1.ProviderServiceGrpc;
import dev.isomer.gateway.v1.RenewLeaseRequest;
import dev.isomer.gateway.v1.UpdateProviderRequest;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;

/** ProviderService: encoders that live elsewhere. It needs the scope {@code admin}. */
public final class Providers {
  private final Transport transport;

  Providers(Transport transport) {
    this.transport = transport;
  }

  /** Registers a provider. */
  public Provider create(Provider provider) {
    CreateProviderRequest request =
        CreateProviderRequest.newBuilder().setProvider(provider).build();
    return transport.call(ProviderServiceGrpc.getCreateProviderMethod(), request).getProvider();
  }

  /** A provider as it is now. */
  public Provider get(String id) {
    GetProviderRequest request = GetProviderRequest.newBuilder().setId(id).build();
    return transport.call(ProviderServiceGrpc.getGetProviderMethod(), request).getProvider();
  }

  /** All providers, in order of id. */
  public Stream<Provider> list() {
    return Pages.of(
        page ->
            transport.call(
                ProviderServiceGrpc.getListProvidersMethod(),
                ListProvidersRequest.newBuilder().setPageToken(page).build()),
        answer -> answer.getProvidersList(),
        answer -> answer.getNextPageToken());
  }

  /** Changes the named fields of a provider. */
  public Provider update(Provider provider, List<String> fields) {
    return update(
        UpdateProviderRequest.newBuilder()
            .setProvider(provider)
            .setUpdateMask(FieldMask.newBuilder().addAllPaths(fields))
            .build());
  }

  /** Registers a provider, or changes all fields that are set of the one that is there. */
  public Provider put(Provider provider) {
    return update(
        UpdateProviderRequest.newBuilder().setProvider(provider).setAllowMissing(true).build());
  }

  private Provider update(UpdateProviderRequest request) {
    return transport.call(ProviderServiceGrpc.getUpdateProviderMethod(), request).getProvider();
  }

  /** Begins a provider's lease anew; when it runs out now. */
  public Instant renewLease(String id) {
    RenewLeaseRequest request = RenewLeaseRequest.newBuilder().setId(id).build();
    com.google.protobuf.Timestamp end =
        transport.call(ProviderServiceGrpc.getRenewLeaseMethod(), request).getExpireTime();
    return Instant.ofEpochSecond(end.getSeconds(), end.getNanos());
  }

  /** Takes a provider away. */
  public void delete(String id) {
    transport.call(
        ProviderServiceGrpc.getDeleteProviderMethod(),
        DeleteProviderRequest.newBuilder().setId(id).build());
  }

  /** Probes a provider that is registered, for real. */
  public CheckProviderResponse check(String id) {
    CheckProviderRequest request = CheckProviderRequest.newBuilder().setId(id).build();
    return transport.call(ProviderServiceGrpc.getCheckProviderMethod(), request);
  }

  /** Probes a provider that is not registered. */
  public CheckProviderResponse check(Provider candidate) {
    CheckProviderRequest request =
        CheckProviderRequest.newBuilder().setCandidate(candidate).build();
    return transport.call(ProviderServiceGrpc.getCheckProviderMethod(), request);
  }
}

package isomer

import (
	"context"
	"iter"
	"time"

	gatewayv1 "isomer.dev/go/gateway/v1"

	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// Providers is ProviderService: encoders that live elsewhere. It needs the scope `admin`.
type Providers struct {
	stub gatewayv1.ProviderServiceClient
}

// Create registers a provider.
func (p *Providers) Create(ctx context.Context, provider *gatewayv1.Provider) (*gatewayv1.Provider, error) {
	answer, err := p.stub.CreateProvider(ctx, &gatewayv1.CreateProviderRequest{Provider: provider})
	return answer.GetProvider(), err
}

// Get has a provider as it is now.
func (p *Providers) Get(ctx context.Context, id string) (*gatewayv1.Provider, error) {
	answer, err := p.stub.GetProvider(ctx, &gatewayv1.GetProviderRequest{Id: id})
	return answer.GetProvider(), err
}

// List has all providers, in order of id.
func (p *Providers) List(ctx context.Context) iter.Seq2[*gatewayv1.Provider, error] {
	return pages(func(token string) ([]*gatewayv1.Provider, string, error) {
		answer, err := p.stub.ListProviders(ctx, &gatewayv1.ListProvidersRequest{PageToken: token})
		return answer.GetProviders(), answer.GetNextPageToken(), err
	})
}

// Update changes the named fields of a provider; without names all that are set.
func (p *Providers) Update(ctx context.Context, provider *gatewayv1.Provider, fields ...string) (*gatewayv1.Provider, error) {
	request := &gatewayv1.UpdateProviderRequest{Provider: provider}
	if len(fields) > 0 {
		request.UpdateMask = &fieldmaskpb.FieldMask{Paths: fields}
	}
	answer, err := p.stub.UpdateProvider(ctx, request)
	return answer.GetProvider(), err
}

// Put registers a provider, or changes all fields that are set of the one that is there.
func (p *Providers) Put(ctx context.Context, provider *gatewayv1.Provider) (*gatewayv1.Provider, error) {
	answer, err := p.stub.UpdateProvider(ctx, &gatewayv1.UpdateProviderRequest{Provider: provider, AllowMissing: true})
	return answer.GetProvider(), err
}

// RenewLease begins a provider's lease anew; when it runs out now.
func (p *Providers) RenewLease(ctx context.Context, id string) (time.Time, error) {
	answer, err := p.stub.RenewLease(ctx, &gatewayv1.RenewLeaseRequest{Id: id})
	return answer.GetExpireTime().AsTime(), err
}

// Delete takes a provider away.
func (p *Providers) Delete(ctx context.Context, id string) error {
	_, err := p.stub.DeleteProvider(ctx, &gatewayv1.DeleteProviderRequest{Id: id})
	return err
}

// Check probes a provider that is registered, for real.
func (p *Providers) Check(ctx context.Context, id string) (*gatewayv1.CheckProviderResponse, error) {
	return p.stub.CheckProvider(ctx, &gatewayv1.CheckProviderRequest{Target: &gatewayv1.CheckProviderRequest_Id{Id: id}})
}

// CheckCandidate probes a provider that is not registered.
func (p *Providers) CheckCandidate(ctx context.Context, candidate *gatewayv1.Provider) (*gatewayv1.CheckProviderResponse, error) {
	target := &gatewayv1.CheckProviderRequest_Candidate{Candidate: candidate}
	return p.stub.CheckProvider(ctx, &gatewayv1.CheckProviderRequest{Target: target})
}

// Keys is AccessService: API keys and their permissions. It needs the scope `admin`.
type Keys struct {
	stub gatewayv1.AccessServiceClient
}

// NewKey is a key with its text, which no later call shows.
type NewKey struct {
	ID     string
	Record *gatewayv1.ApiKey

	secret string
}

// Secret is the key's text. It is a method so that printing a NewKey does not show it.
func (k *NewKey) Secret() string { return k.secret }

// String hides the secret from logs.
func (k *NewKey) String() string { return "NewKey(" + k.ID + ")" }

// GoString hides the secret from logs.
func (k *NewKey) GoString() string { return k.String() }

// Create makes a key of the fields that are set: name, scopes, limits, expire_time.
func (k *Keys) Create(ctx context.Context, key *gatewayv1.ApiKey) (*NewKey, error) {
	answer, err := k.stub.CreateKey(ctx, &gatewayv1.CreateKeyRequest{Key: key})
	if err != nil {
		return nil, err
	}
	return &NewKey{ID: answer.GetKey().GetId(), Record: answer.GetKey(), secret: answer.GetSecret()}, nil
}

// Get has a key with what it has used, without its text.
func (k *Keys) Get(ctx context.Context, id string) (*gatewayv1.ApiKey, error) {
	answer, err := k.stub.GetKey(ctx, &gatewayv1.GetKeyRequest{Id: id})
	return answer.GetKey(), err
}

// List has keys, revoked ones too, oldest first.
func (k *Keys) List(ctx context.Context) iter.Seq2[*gatewayv1.ApiKey, error] {
	return pages(func(token string) ([]*gatewayv1.ApiKey, string, error) {
		answer, err := k.stub.ListKeys(ctx, &gatewayv1.ListKeysRequest{PageToken: token})
		return answer.GetKeys(), answer.GetNextPageToken(), err
	})
}

// Update changes `name`, `scopes`, `limits` or `expire_time` of the key with this id.
func (k *Keys) Update(ctx context.Context, key *gatewayv1.ApiKey, fields ...string) (*gatewayv1.ApiKey, error) {
	answer, err := k.stub.UpdateKey(ctx, &gatewayv1.UpdateKeyRequest{Key: key, UpdateMask: &fieldmaskpb.FieldMask{Paths: fields}})
	return answer.GetKey(), err
}

// Revoke ends a key for good.
func (k *Keys) Revoke(ctx context.Context, id string) (*gatewayv1.ApiKey, error) {
	answer, err := k.stub.RevokeKey(ctx, &gatewayv1.RevokeKeyRequest{Id: id})
	return answer.GetKey(), err
}

// Audit has what administrators did after an event (0: from the first), oldest first.
func (k *Keys) Audit(ctx context.Context, after int64) iter.Seq2[*gatewayv1.AuditEvent, error] {
	return func(yield func(*gatewayv1.AuditEvent, error) bool) {
		for {
			answer, err := k.stub.ListAuditEvents(ctx, &gatewayv1.ListAuditEventsRequest{After: after})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, event := range answer.GetEvents() {
				if !yield(event, nil) {
					return
				}
				after = event.GetSeq()
			}
			if len(answer.GetEvents()) == 0 || after >= answer.GetHeadSeq() {
				return
			}
		}
	}
}

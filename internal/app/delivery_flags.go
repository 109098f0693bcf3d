package app

import (
	"errors"
	"fmt"
	"net/netip"

	"probity/coordinator/bucket"
	"probity/coordinator/outward"
)

// DeliveryFlags say which buckets results may be delivered to.
type DeliveryFlags struct {
	ResultsTo     []string       `help:"A bucket that customers may have results delivered to, or only the account of an e-mail address: [ACCOUNT=]s3://BUCKET[/PREFIX]; repeatable." sep:"none" placeholder:"[ACCOUNT=]s3://BUCKET[/PREFIX]"`
	S3Endpoint    string         `name:"s3-endpoint" help:"The object storage with these buckets." default:"https://s3.amazonaws.com" placeholder:"URL"`
	S3Region      string         `name:"s3-region" help:"Its region." default:"us-east-1"`
	S3Private     []netip.Prefix `name:"s3-private" help:"Private networks that the object storage may be in; repeatable." placeholder:"CIDR"`
	S3Credentials string         `name:"s3-credentials" help:"File with its access key, as AWS tools write it." type:"path" placeholder:"FILE"`
}

// check refuses settings that do not go together.
func (f *DeliveryFlags) check() error {
	errs := make([]error, 0, len(f.ResultsTo)+2)
	for _, s := range f.ResultsTo {
		if _, err := bucket.ParseAllowed(s); err != nil {
			errs = append(errs, fmt.Errorf("--results-to %s: %w", s, err))
		}
	}
	if (len(f.ResultsTo) == 0) != (f.S3Credentials == "") {
		errs = append(errs, errors.New("--results-to and --s3-credentials need each other"))
	}
	if f.S3Endpoint != "" {
		if _, err := bucket.CheckEndpoint(f.S3Endpoint); err != nil {
			errs = append(errs, fmt.Errorf("--s3-endpoint: %w", err))
		}
	}
	return errors.Join(errs...)
}

// dialer connects as callbacks do, but to the storage's networks: the operator names it, customers name receivers.
func (f *DeliveryFlags) dialer(callbacks outward.Config) *outward.Dialer {
	callbacks.Allow = f.S3Private
	return outward.New(callbacks)
}

// open makes the sender of a service.
func (f *DeliveryFlags) open(s *Service, dialer *outward.Dialer) (*bucket.Sender, error) {
	var allowed []bucket.Allowed
	for _, text := range f.ResultsTo {
		a, err := bucket.ParseAllowed(text)
		if err != nil {
			return nil, fmt.Errorf("--results-to %s: %w", text, err)
		}
		allowed = append(allowed, a)
	}
	sender, err := bucket.New(bucket.Config{Store: s.node.Store, Results: s.node.Coordinator, Dialer: dialer,
		Allowed: allowed, Endpoint: f.S3Endpoint, Region: f.S3Region, CredentialsFile: f.S3Credentials, Log: s.Log,
		Metrics: s.Registry})
	if err != nil {
		return nil, fmt.Errorf("--results-to: %w", err)
	}
	return sender, nil
}

package wire

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"probity/engine"
)

// Forget asks the node to delete what it keeps of an address, given in folded form. It reports whether there was a verdict.
func (c *Client) Forget(ctx context.Context, folded string) (was bool, err error) {
	node, id, err := c.nodeForRequest()
	if err != nil {
		return false, err
	}
	done, err := node.Forget(ctx, &ForgetFrame{Coordinator: id, Email: folded})
	if err != nil {
		return false, c.nodeError(errors.New(status.Convert(err).Message()))
	}
	return done.GetWas(), nil
}

// Forget deletes what is kept of an address for the coordinator.
func (v service) Forget(_ context.Context, f *ForgetFrame) (*ForgottenFrame, error) {
	if err := v.s.checkCoordinator(f.GetCoordinator()); err != nil {
		return nil, err
	}
	if v.s.cfg.Forget == nil {
		return nil, status.Error(codes.Unimplemented, "node "+v.s.cfg.Node+" has no cache")
	}
	a, err := engine.Parse(f.GetEmail())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "not an address")
	}
	was, err := v.s.cfg.Forget(a)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &ForgottenFrame{Was: was}, nil
}

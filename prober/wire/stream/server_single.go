package stream

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/frames"
)

// Single answers a single call, if it comes from the coordinator that gives the lease.
func (s service) Single(ctx context.Context, f *frames.AskFrame) (*frames.AnswerFrame, error) {
	if err := s.s.checkCoordinator(f.GetCoordinator()); err != nil {
		return nil, err
	}
	table, tableSwitches, err := s.s.tableOf(f.GetTable())
	if err != nil {
		return nil, err
	}
	request, err := f.Read(table)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if budget := time.Duration(f.GetBudgetNs()); budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, budget)
		defer cancel()
	}
	ctx, span := startServerSpan(ctx, &s.s.cfg)
	answer, err := s.s.cfg.Prober.Single(ctx, request)
	endSpan(span, err)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if _, now, err := s.s.tableOf(f.GetTable()); len(f.GetTable()) > 0 && (err != nil || now != tableSwitches) {
		return nil, errTableSwitched // the table changed meanwhile: the answer may be judged by two
	}
	return &frames.AnswerFrame{Node: answer.Node, Verdict: frames.NewVerdictFrame(&answer.Verdict)}, nil
}

func (s *Server) checkCoordinator(coordinator *frames.CoordinatorIDFrame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return errStopped
	case s.coordinator.ID != coordinator.GetId() || s.coordinator.Term != coordinator.GetTerm():
		return status.Error(codes.FailedPrecondition, "node "+s.cfg.Node+" works for another coordinator")
	case s.isolated:
		return status.Error(codes.Unavailable, "node "+s.cfg.Node+" has no lease")
	}
	return nil
}

// Look serves the views to the coordinator's operators.
func (s service) Look(_ context.Context, f *frames.LookFrame) (*frames.ViewFrame, error) {
	if err := s.s.checkCoordinator(f.GetCoordinator()); err != nil {
		return nil, err
	}
	if s.s.cfg.Views == nil {
		return nil, status.Error(codes.Unimplemented, "node "+s.s.cfg.Node+" has no views")
	}
	var seen any
	if f.GetReadyQueues() {
		seen = s.s.cfg.Views.ReadyQueues()
	} else {
		traces, err := s.s.cfg.Views.Traces(wire.Query{Email: f.GetEmail(), Status: f.GetStatus(),
			Provider: f.GetProvider(), Limit: int(f.GetLimit())})
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		seen = traces
	}
	body, err := json.Marshal(seen)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &frames.ViewFrame{Json: body}, nil
}

// Release ends a quarantine for the coordinator's operators.
func (s service) Release(_ context.Context, f *frames.ReleaseFrame) (*frames.ReleasedFrame, error) {
	if err := s.s.checkCoordinator(f.GetCoordinator()); err != nil {
		return nil, err
	}
	if s.s.cfg.Views == nil {
		return nil, status.Error(codes.Unimplemented, "node "+s.s.cfg.Node+" cannot end quarantines")
	}
	return &frames.ReleasedFrame{Found: s.s.cfg.Views.EndQuarantine(f.GetEgress(), f.GetRoute())}, nil
}

// Forget deletes what is kept of an address for the coordinator.
func (s service) Forget(_ context.Context, f *frames.ForgetFrame) (*frames.ForgottenFrame, error) {
	if err := s.s.checkCoordinator(f.GetCoordinator()); err != nil {
		return nil, err
	}
	if s.s.cfg.Forget == nil {
		return nil, status.Error(codes.Unimplemented, "node "+s.s.cfg.Node+" has no cache")
	}
	a, err := engine.Parse(f.GetEmail())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "not an address")
	}
	found, err := s.s.cfg.Forget(a)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &frames.ForgottenFrame{Found: found}, nil
}

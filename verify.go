package probity

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"probity/coordinator"
	"probity/engine"
)

// Verify verifies one address. A Result with the status UNKNOWN is not an error: its reason says what could not be
// determined. An error means that ctx or the Verifier ended, or that the Verifier failed.
func (v *Verifier) Verify(ctx context.Context, address string) (Result, error) {
	return v.verify(ctx, address, false)
}

// verify verifies one address, of a sequence after those of single calls.
func (v *Verifier) verify(ctx context.Context, address string, ofMany bool) (Result, error) {
	if err := v.begin(); err != nil {
		return Result{}, err
	}
	defer v.calls.Done()
	limited, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(v.running, cancel)()
	a, err := v.node.Coordinator.Single(limited, coordinator.Request{Email: address, NoSMTP: v.cfg.NoSMTP,
		MaxAge: v.cfg.MaxAge, Batch: ofMany, Details: true})
	switch { // a verdict that was made while its context ended says nothing
	case v.running.Err() != nil:
		err = ErrClosed
	case errors.Is(ctx.Err(), context.Canceled):
		err = context.Cause(ctx)
	}
	if err != nil {
		return Result{}, fmt.Errorf("probity: %s: %w", address, err)
	}
	return newResult(address, &a, time.Now()), nil
}

// VerifyAll verifies addresses, several at one time, and yields their results in their order. Each is verified as by
// Verify: once, within Config.Timeout. It reads addresses as it needs them, no more than Config.Parallel ahead. The
// sequence ends after the first error, which comes with the address in Result.Email.
func (v *Verifier) VerifyAll(ctx context.Context, addresses iter.Seq[string]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		next, end := iter.Pull(addresses)
		defer end()
		var calls sync.WaitGroup
		defer calls.Wait()
		defer stop()
		type outcome struct {
			result Result
			err    error
		}
		var window []chan outcome // of the addresses that were read, in their order
		for more := true; ; {
			for more && len(window) < v.cfg.Parallel {
				var address string
				address, more = next()
				if !more {
					break
				}
				answered := make(chan outcome, 1)
				window = append(window, answered)
				calls.Go(func() {
					r, err := v.verify(ctx, address, true)
					r.Email = address
					answered <- outcome{r, err}
				})
			}
			if len(window) == 0 {
				return
			}
			first := <-window[0]
			window = window[1:]
			if !yield(first.result, first.err) || first.err != nil {
				return
			}
		}
	}
}

// newResult takes over what a caller may see of an answer. The score is as of now.
func newResult(address string, a *coordinator.Answer, now time.Time) Result {
	v := &a.Verdict
	return Result{Email: address, Status: Status(v.Status.String()), Score: int(engine.Score(v, now)),
		Reason: Reason(v.Reason.String()), SyntaxValid: v.SyntaxValid(), DomainExists: v.DomainExists(),
		SMTPValid: v.SMTPValid, Disposable: v.Flags.Has(engine.FlagDisposable), RoleBased: v.Flags.Has(engine.FlagRole),
		Free: v.Flags.Has(engine.FlagFree), Provider: v.ProviderName, MX: append([]string{}, v.MX...),
		FromCache: v.FromCache, VerifiedAt: v.VerifiedAt.UTC(), Normalized: a.Address.Folded(),
		DidYouMean: a.Suggestion, Rule: v.Rule, Host: v.Details.Host, Code: v.Details.Code, Message: v.Details.Message}
}

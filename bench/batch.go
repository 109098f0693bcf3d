package bench

import (
	"context"
	"encoding/json"
)

// The loads of the batch scenario.
const (
	wholeBatch       = 1000 // addresses of a batch, the most
	smallBatch       = 50
	batchConnections = 16
	batchRate        = 200 // small batches a second, while a job runs
	batchAddressCPU  = 10  // microseconds of the server for a cached address, at most
)

// runBatch measures batches of cached addresses: whole ones alone, and small ones at a fixed rate while a job runs.
func runBatch(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		list, err := t.writeList("list.csv", in.world, t.rows)
		if err != nil {
			return err
		}
		addresses, err := distinctAddresses(ctx, t, in, list, cachedAddresses)
		if err != nil {
			return err
		}
		return t.withService(ctx, in, serviceConfig{name: "data", accounts: loadAccounts}, func(s *service) error {
			batch := load{url: s.baseURL + "/v1/verify/batch", keys: s.keys, connections: batchConnections}
			if err := measureWholeBatches(ctx, t, s, batch, addresses); err != nil {
				return err
			}
			return measureBatchesWithJob(ctx, t, s, batch, addresses, list)
		})
	})
}

// batchBodies divides addresses into request bodies of so many.
func batchBodies(addresses []string, size int) (bodies [][]byte, err error) {
	for from := 0; from < len(addresses); from += size {
		emails := addresses[from:min(from+size, len(addresses))]
		body, err := json.Marshal(map[string]any{"emails": emails, "timeout": 60})
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// measureWholeBatches asks for all addresses once, and then again and again from the cache.
func measureWholeBatches(ctx context.Context, t *Trial, s *service, l load, addresses []string) (err error) {
	t.logProgress("whole batches of fresh addresses, then of cached ones")
	if l.bodies, err = batchBodies(addresses, wholeBatch); err != nil {
		return err
	}
	l.name, l.requests = "fresh", len(l.bodies)
	fresh, err := l.run(ctx)
	if err != nil {
		return err
	}
	reportLoad(t, "fresh", fresh)
	t.AtMost("fresh_errors", 0)
	l.name, l.requests, l.duration = "cached", 0, loadTime(t)
	before := s.CPU()
	cached, err := l.run(ctx)
	if err != nil {
		return err
	}
	cpu := s.CPU() - before
	reportLoad(t, "cached", cached)
	t.Metric("cached_address_cpu", perItem(cpu, int(cached.Total)*wholeBatch), "us")
	t.AtMost("cached_errors", 0)
	t.AtMost("cached_address_cpu", batchAddressCPU)
	return nil
}

// measureBatchesWithJob sends small batches of cached addresses at a fixed rate while a job runs.
func measureBatchesWithJob(ctx context.Context, t *Trial, s *service, l load, addresses []string, list string) error {
	job, err := s.upload(ctx, s.keys[0], list)
	if err != nil {
		return err
	}
	t.logProgress("batches of %d at %d a second while a job runs", smallBatch, batchRate)
	if l.bodies, err = batchBodies(addresses, smallBatch); err != nil {
		return err
	}
	l.name, l.rate = "with_job", batchRate
	if _, err := runWithJob(ctx, t, s, l, job.ID, 0); err != nil {
		return err
	}
	return endWithJob(ctx, t, s, job.ID)
}

package retention

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"probity/coordinator/jobdir"
	"probity/store"
)

// Config is what a Sweeper needs of the coordinator.
type Config struct {
	Store     *store.Store
	Files     *jobdir.Dirs
	Clock     *Clock
	Results   time.Duration // how long the files of jobs are kept after their end
	History   time.Duration // and their records, and those of downloads in the audit log; 0: for ever
	Log       *slog.Logger
	Failures  *atomic.Int64 // counts what is tried again
	Receiving func(id string) bool
	Expire    func(id string) error // deletes the files of a job
	Delete    func(id string) error // deletes a job
	ClockSet  func()                // called after a step of the clock
}

// Sweeper expires jobs, deletes old records, and removes files that no record names.
type Sweeper struct{ cfg Config }

// New makes a Sweeper.
func New(cfg Config) *Sweeper { return &Sweeper{cfg} }

// Start compares the clock with the saved one, and removes what an earlier process left over.
func (s *Sweeper) Start() error {
	now := time.Now()
	saved, err := s.cfg.Store.SavedClock()
	if err != nil {
		return err
	}
	by := time.Duration(0) // how far the wall clock is from the saved one
	if !saved.IsZero() {
		by = now.Sub(saved)
	}
	s.cfg.Clock.adjust(now, by)
	if by < -maxDrift {
		s.cfg.Log.Warn("the clock is behind what it was: nothing expires for a day", "noted", saved, "now", now)
	}
	if err := s.LogUnlessFatal(s.cfg.Store.SaveClock(now), "the clock was not saved"); err != nil {
		return err
	}
	return s.LogUnlessFatal(s.removeOrphanFolders(), "orphaned job folders were not looked for")
}

const (
	retentionEvery = time.Hour
	maxReady       = 7 * 24 * time.Hour // then a job that was not started is deleted
)

// Run checks the clock each minute, and each hour expires jobs, deletes those that were not started, and deletes old
// records, until ctx ends or the state store fails. A failed removal is tried again an hour later.
func (s *Sweeper) Run(ctx context.Context) error {
	t := time.NewTicker(clockEvery)
	defer t.Stop()
	for last, kept := time.Now(), time.Now(); ; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		if by := clockStep(now.Round(0).Sub(last.Round(0)), now.Sub(last)); by != 0 {
			s.cfg.Clock.adjust(now, by)
			s.cfg.Log.Warn("the clock was set: nothing expires for a while", "by", by)
			s.cfg.ClockSet()
		}
		if err := s.LogUnlessFatal(s.cfg.Store.SaveClock(now), "the clock was not saved"); err != nil {
			return err
		}
		last = now
		if now.Sub(kept) < retentionEvery {
			continue
		}
		kept = now
		expired := s.endAll(now, store.StageKept, s.cfg.Results, s.cfg.Expire, "a job could not be expired")
		unstarted := s.endAll(now, store.StageReady, maxReady, s.cfg.Delete,
			"a job that was not started could not be deleted")
		deleted := s.deleteOldRecords(now)
		orphans := s.LogUnlessFatal(s.removeOrphanFolders(), "orphaned job folders were not looked for")
		if err := errors.Join(expired, unstarted, deleted, orphans); err != nil {
			return err
		}
	}
}

// LogUnlessFatal logs and counts a failure that is retried in an hour. It returns only a failure of the state store.
func (s *Sweeper) LogUnlessFatal(err error, what string, args ...any) error {
	if err == nil || errors.Is(err, store.ErrBroken) {
		return err
	}
	s.cfg.Failures.Add(1)
	s.cfg.Log.Error(what+": it is tried again in an hour", append(args, "error", err)...)
	return nil
}

// endAll expires or deletes the jobs of a stage that have been in it for as long as they may.
func (s *Sweeper) endAll(now time.Time, stage store.JobStage, kept time.Duration, end func(id string) error,
	failed string) error {
	if now.Before(s.cfg.Clock.NotBefore(time.Time{})) {
		return nil
	}
	var old []string
	err := s.cfg.Store.JobsInSince(stage, now.Add(-kept), func(id string) error {
		old = append(old, id)
		return nil
	})
	if err != nil {
		return s.LogUnlessFatal(err, "not all jobs were read")
	}
	for _, id := range old {
		if failure := end(id); errors.Is(failure, store.ErrNotFound) { // it was deleted meanwhile
			continue
		} else if err := s.LogUnlessFatal(failure, failed, "job", id); err != nil {
			return err
		}
	}
	return nil
}

// deleteOldRecords deletes the records of expired jobs and of downloads that are older than Config.History.
func (s *Sweeper) deleteOldRecords(now time.Time) error {
	if s.cfg.History == 0 {
		return nil
	}
	err := s.endAll(now, store.StageExpired, s.cfg.History, s.cfg.Delete, "the record of a job could not be deleted")
	if err == nil && !now.Before(s.cfg.Clock.NotBefore(time.Time{})) {
		_, err = s.cfg.Store.SweepDownloads(now.Add(-s.cfg.History))
		err = s.LogUnlessFatal(err, "not all old records of downloads were deleted")
	}
	return err
}

// removeOrphanFolders removes the folders of jobs that have expired or that the store does not know (broken uploads).
// In the other folders it removes the objects that no record names.
func (s *Sweeper) removeOrphanFolders() error {
	fs, dir := s.cfg.Files.FS, s.cfg.Files.Dir
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	found, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(found)
	for _, id := range found {
		if s.cfg.Receiving(id) { // checked first: after an upload the store has the job, or its folder is gone
			continue
		}
		if j, err := s.cfg.Store.Job(id); err == nil && j.State != store.JobExpired {
			if err := s.LogUnlessFatal(s.cfg.Files.RemoveOrphansIfIdle(id), "unused files of a job were not removed",
				"job", id); err != nil {
				return err
			}
			continue
		} else if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := fs.RemoveAll(s.cfg.Files.Path(id)); err != nil {
			s.cfg.Failures.Add(1)
			s.cfg.Log.Error("the folder of a deleted job cannot be removed: it is tried again in an hour", "job", id,
				"error", err)
		}
	}
	return nil
}

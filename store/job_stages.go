package store

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// JobStage is how far a job is on its way from its upload to the end of its record. Jobs are indexed by it.
type JobStage byte

// The stages. A job enters each at the time by which it is ordered there.
const (
	StageReady      JobStage = '0' // not started: by their creation
	StageUnfinished JobStage = '1' // by their creation
	StageKept       JobStage = '2' // finished, with files: by their end
	StageExpired    JobStage = '3' // without files: by their end, too
)

// stage returns the stage of a job and the time by which it is ordered there.
func (j *Job) stage() (JobStage, time.Time) {
	switch {
	case j.State == JobReady:
		return StageReady, j.CreatedAt
	case !j.State.Finished():
		return StageUnfinished, j.CreatedAt
	case j.State == JobExpired:
		return StageExpired, j.FinishedAt
	}
	return StageKept, j.FinishedAt
}

const stagePrefix = 2 + 8 // before the id in a key of tableJobStage: table, stage, time

func stageKey(j *Job) []byte {
	stage, at := j.stage()
	return append(appendUint64([]byte{tableJobStage, byte(stage)}, stageTime(at)), j.ID...)
}

// stageTime orders times. Those before 1970, as no time, are one.
func stageTime(at time.Time) uint64 {
	if at.Unix() < 0 {
		return 0
	}
	return uint64(at.UnixNano())
}

// setJob writes a job that was as it is in was, nil for a new one.
func setJob(b *pebble.Batch, was, now *Job) error {
	stage := stageKey(now)
	if was != nil && string(stageKey(was)) != string(stage) {
		if err := b.Delete(stageKey(was), nil); err != nil {
			return err
		}
	}
	if was == nil || string(ownerValue(was)) != string(ownerValue(now)) {
		if err := b.Set(ownerKey(now), ownerValue(now), nil); err != nil {
			return err
		}
	}
	return errors.Join(b.Set(stage, nil, nil), setJSON(b, key(tableJob, now.ID), now))
}

// JobsIn calls visit with the ids of the jobs in a stage, those first that are longest in it.
func (j *Jobs) JobsIn(stage JobStage, visit func(id string) error) error {
	return j.jobsIn(stage, math.MaxUint64, visit)
}

// JobsInSince is JobsIn for those that have been in the stage since a time or longer.
func (j *Jobs) JobsInSince(stage JobStage, since time.Time, visit func(id string) error) error {
	return j.jobsIn(stage, stageTime(since), visit)
}

func (j *Jobs) jobsIn(stage JobStage, last uint64, visit func(id string) error) error {
	return scan(j.db, []byte{tableJobStage, byte(stage)}, nil, func(k, _ []byte) error {
		if binary.BigEndian.Uint64(k[2:]) > last {
			return errStop
		}
		return visit(string(k[stagePrefix:]))
	})
}

package record

import (
	"encoding/binary"
	"slices"
	"strings"

	"probity/store"
)

// JobCursor is the position of a job among all, newest first, as a cursor.
func JobCursor(j *store.Job) string {
	return string(binary.BigEndian.AppendUint64(nil, ^uint64(j.CreatedAt.UnixNano()))) + j.ID
}

// NewestJobs keeps the n newest jobs, in the order of their cursors.
func NewestJobs(jobs []*store.Job, n int) []*store.Job {
	slices.SortFunc(jobs, func(a, b *store.Job) int { return strings.Compare(JobCursor(a), JobCursor(b)) })
	return jobs[:min(n, len(jobs))]
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"probity/coordinator"
	"probity/internal/console"
	"probity/internal/safefile"
	"probity/store"
)

// apiClient is a client of a server's public API.
type apiClient struct {
	base, key string
	http      *http.Client
}

// maxErrorBody bounds the body of an error answer.
const maxErrorBody = 64 << 10

// call sends a request and returns the body of a 2xx answer. Any other answer is an error with the server's detail.
func (c *apiClient) call(ctx context.Context, method, path, contentType string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var refusal struct{ Detail string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxErrorBody)).Decode(&refusal); err != nil {
		return nil, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, refusal.Detail)
}

// jobView is the part of a job record that the command line shows.
type jobView struct {
	ID           string           `json:"job_id"`
	Status       string           `json:"status"`
	TotalRows    int64            `json:"total_rows"`
	Unique       int64            `json:"unique_addresses"`
	Duplicates   int64            `json:"duplicate_rows"`
	Blank        int64            `json:"blank_rows"`
	Processed    int64            `json:"processed"`
	Rate         float64          `json:"rows_per_second"`
	PendingRetry int64            `json:"pending_retry"`
	Waiting      int64            `json:"waiting_budget"`
	Counts       map[string]int64 `json:"counts"`
	Reasons      map[string]int64 `json:"reasons"`
	Error        string           `json:"error"`
}

// record converts the view for progress and summary.
func (v *jobView) record() store.Job {
	return store.Job{ID: v.ID, State: store.JobState(v.Status), Rows: v.TotalRows, Unique: v.Unique, Duplicates: v.Duplicates, Blank: v.Blank, Counts: v.Counts, Reasons: v.Reasons, Error: v.Error}
}

// verifyFile uploads a list, follows its job to the end, and downloads the result.
func (c *apiClient) verifyFile(ctx context.Context, con *console.IO, list, result string) (*store.Job, error) {
	job, err := c.upload(ctx, list)
	if err != nil {
		return nil, err
	}
	bar := newProgress(con)
	for !store.JobState(job.Status).Finished() {
		bar.show(coordinator.Snapshot{Job: job.record(), Processed: job.Processed, Rate: job.Rate, PendingRetry: job.PendingRetry, WaitingBudget: job.Waiting})
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(progressInterval):
		}
		if job, err = c.job(ctx, job.ID); err != nil {
			return nil, err
		}
	}
	bar.end()
	ended := job.record()
	if ended.State != store.JobCompleted {
		return nil, fmt.Errorf("job %s: %s %s", job.ID, ended.State, ended.Error)
	}
	return &ended, c.download(ctx, job.ID, result)
}

func (c *apiClient) job(ctx context.Context, id string) (v jobView, err error) {
	body, err := c.call(ctx, http.MethodGet, "/v1/verify/bulk/"+id, "", nil)
	if err != nil {
		return v, err
	}
	defer body.Close()
	return v, json.NewDecoder(body).Decode(&v)
}

// upload streams a file as multipart form data.
func (c *apiClient) upload(ctx context.Context, list string) (v jobView, err error) {
	f, err := os.Open(list)
	if err != nil {
		return v, err
	}
	defer f.Close()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		part, err := form.CreateFormFile("file", filepath.Base(list))
		if err == nil {
			_, err = io.Copy(part, f)
		}
		w.CloseWithError(errors.Join(err, form.Close())) // a nil error is io.EOF to the reader
	}()
	body, err := c.call(ctx, http.MethodPost, "/v1/verify/bulk", form.FormDataContentType(), r)
	_ = r.Close() // ends the writer, even if the call failed
	if err != nil {
		return v, err
	}
	defer body.Close()
	return v, json.NewDecoder(body).Decode(&v)
}

func (c *apiClient) download(ctx context.Context, id, result string) error {
	body, err := c.call(ctx, http.MethodGet, "/v1/verify/bulk/"+id+"/results", "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return safefile.Write(result, func(w io.Writer) error {
		_, err := io.Copy(w, body)
		return err
	})
}

package bench

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
	"strings"
	"time"
)

// jobRecord holds the fields of a job that scenarios use.
type jobRecord struct {
	ID        string `json:"job_id"`
	Status    string `json:"status"`
	Rows      int    `json:"total_rows"`
	Unique    int    `json:"unique_addresses"`
	Processed int    `json:"processed"`
	Error     string `json:"error"`
}

// finished reports whether the job has ended.
func (j jobRecord) finished() bool {
	switch j.Status {
	case "completed", "cancelled", "failed", "expired":
		return true
	}
	return false
}

// maxResponse bounds an answer that should be short.
const maxResponse = 1 << 20

// upload sends a list as a job.
func (s *service) upload(ctx context.Context, key, list string) (job jobRecord, err error) {
	f, err := os.Open(list)
	if err != nil {
		return job, err
	}
	defer f.Close()
	body, writing := io.Pipe()
	form := multipart.NewWriter(writing)
	go func() {
		file, err := form.CreateFormFile("file", filepath.Base(list))
		if err == nil {
			_, err = io.CopyBuffer(file, struct{ io.Reader }{f}, make([]byte, 256<<10))
		}
		if err == nil {
			err = form.Close()
		}
		writing.CloseWithError(err)
	}()
	defer body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.baseURL+"/v1/verify/bulk", body)
	if err != nil {
		return job, err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	return job, s.do(req, key, http.StatusAccepted, &job)
}

// job reads a job's record.
func (s *service) job(ctx context.Context, key, id string) (job jobRecord, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.baseURL+"/v1/verify/bulk/"+id, nil)
	if err != nil {
		return job, err
	}
	return job, s.do(req, key, http.StatusOK, &job)
}

// cancel cancels a job; a job that has already ended is no error.
func (s *service) cancel(ctx context.Context, key, id string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.baseURL+"/v1/verify/bulk/"+id+"/cancel", nil)
	if err != nil {
		return err
	}
	err = s.do(req, key, http.StatusOK, &jobRecord{})
	var unexpected *responseError
	if errors.As(err, &unexpected) && unexpected.code == http.StatusConflict {
		return nil
	}
	return err
}

// results downloads the result of a job as zstd into a file, and returns how many bytes came.
func (s *service) results(ctx context.Context, key, id, path string) (n int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		s.baseURL+"/v1/verify/bulk/"+id+"/results?compress=zstd", nil)
	if err != nil {
		return 0, err
	}
	answer, err := s.send(req, key, http.StatusOK)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	n, err = io.CopyBuffer(f, answer.Body, make([]byte, 256<<10))
	return n, errors.Join(err, f.Close())
}

// responseError is an answer with an unexpected status.
type responseError struct {
	path   string
	code   int
	detail string
}

func (e *responseError) Error() string { return fmt.Sprintf("%s: %d %s", e.path, e.code, e.detail) }

// do sends a request and reads the JSON of its answer.
func (s *service) do(req *http.Request, key string, want int, into any) error {
	answer, err := s.send(req, key, want)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxResponse)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", req.URL.Path, err)
	}
	return nil
}

// send sends a request. Without an error the body of the answer is open.
func (s *service) send(req *http.Request, key string, want int) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == want {
		return answer, nil
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 500))
	return nil, errors.Join(&responseError{path: req.URL.Path, code: answer.StatusCode,
		detail: strings.TrimSpace(string(body))}, err)
}

// follow polls a job every pause until it has ended, and calls seen with each record.
func (s *service) follow(ctx context.Context, key, id string, pause time.Duration, seen func(jobRecord)) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		job, err := s.job(ctx, key, id)
		if err != nil {
			return err
		}
		seen(job)
		if job.finished() {
			if job.Status == "failed" {
				return fmt.Errorf("job %s failed: %s", id, job.Error)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.Done():
			return errors.Join(errors.New("serve ended: "+s.LastLine()), s.Wait())
		case <-tick.C:
		}
	}
}

package httpd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDeadline: whenever a caller begins to wait, the context is what context.WithTimeout would have made.
func TestDeadline(t *testing.T) {
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			parent, cancelParent := context.WithCancel(context.Background())
			d := NewDeadline(parent, time.Now().Add(time.Second))
			at, ok := d.Deadline()
			require.True(t, ok)
			require.Equal(t, time.Second, time.Until(at))
			if waits {
				child, cancel := context.WithCancel(d)
				defer cancel()
				defer func() {
					<-child.Done()
					require.ErrorIs(t, child.Err(), context.DeadlineExceeded)
				}()
			}
			require.NoError(t, d.Err())
			time.Sleep(time.Second)
			synctest.Wait()
			require.ErrorIs(t, d.Err(), context.DeadlineExceeded)
			<-d.Done()
			require.ErrorIs(t, d.Err(), context.DeadlineExceeded)
			cancelParent()
			d.Release()

			parent, cancelParent = context.WithCancel(context.Background())
			d = NewDeadline(parent, time.Now().Add(time.Second))
			if waits {
				d.Done()
			}
			cancelParent()
			synctest.Wait()
			require.ErrorIs(t, d.Err(), context.Canceled)
			d.Release()

			d = NewDeadline(context.Background(), time.Now().Add(time.Second))
			if waits {
				d.Done()
			}
			d.Release()
			require.True(t, errors.Is(d.Err(), context.Canceled))
			<-d.Done()
		})
	}
}

/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package memapi

import (
	"context"
	"io"
	"sync"
)

// stream is a body that blocks until something is sent.
type stream struct {
	ctx   context.Context
	close context.CancelFunc
	mu    sync.Mutex
	data  []byte
	more  chan struct{}
}

func newStream(ctx context.Context) *stream {
	ctx, cancel := context.WithCancel(ctx)
	return &stream{ctx: ctx, close: cancel, more: make(chan struct{}, 1)}
}

func (s *stream) send(data []byte) {
	s.mu.Lock()
	s.data = append(s.data, data...)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n := copy(p, s.data)
		s.data = s.data[n:]
		s.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-s.more:
		case <-s.ctx.Done():
			return 0, io.EOF
		}
	}
}

func (s *stream) Close() error {
	s.close()
	return nil
}

func (s *stream) closed() bool {
	return s.ctx.Err() != nil
}

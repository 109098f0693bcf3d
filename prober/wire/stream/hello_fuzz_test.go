package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"probity/prober/wire"
	"probity/prober/wire/frames"
)

// FuzzHello: no frame of a coordinator that has not greeted, and none of a node, makes the other side panic; what is
// read of identities is written as it was.
func FuzzHello(f *testing.F) {
	first := &frames.CoordinatorHelloFrame{Version: "1", Protocol: wire.Protocol}
	hello, err := proto.Marshal(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Hello{Hello: first}})
	require.NoError(f, err)
	node, err := proto.Marshal(&frames.NodeHelloFrame{Identities: frames.NewIdentityFrames([]wire.Identity{{Name: "a",
		EHLO: "mx.example.org"}})})
	require.NoError(f, err)
	f.Add(hello, node)
	f.Fuzz(func(t *testing.T, ours, theirs []byte) {
		var c frames.CoordinatorFrame
		if proto.Unmarshal(ours, &c) == nil {
			h := c.GetHello()
			_ = mismatch(peer{role: "us", version: "1", protocols: ownVersions()},
				peer{role: "them", version: h.GetVersion(), protocols: peerVersions(h)})
		}
		var n frames.NodeHelloFrame
		if proto.Unmarshal(theirs, &n) == nil {
			ids := frames.ReadIdentities(n.GetIdentities())
			require.Equal(t, ids, frames.ReadIdentities(frames.NewIdentityFrames(ids)))
		}
	})
}

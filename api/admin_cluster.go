package api

import (
	"context"
	"time"

	"probity/api/httpd"
	"probity/coordinator/fleet"
)

// clusterTimeout bounds how long nodes are asked for their quarantines.
const clusterTimeout = 5 * time.Second

// getCluster serves the nodes of the cluster, their egress sources and their status, as probity cluster shows them, and
// the quarantines in force. A server without a cluster has no nodes.
func getCluster(c *call) error {
	o := c.srv.deps.Operator
	report := fleet.ClusterReport{Nodes: []fleet.NodeReport{}}
	if o.Cluster != nil {
		report = o.Cluster()
	}
	if o.Views != nil {
		ctx, cancel := context.WithTimeout(c.srv.http.DrainContext(), clusterTimeout)
		defer cancel()
		queues, _ := o.Views.ReadyQueues(ctx) // the report says which nodes are away
		report.SetQuarantines(queues)
	}
	return c.SendJSON(httpd.StatusOK, report)
}

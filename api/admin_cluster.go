package api

import (
	"probity/api/httpd"
	"probity/coordinator/fleet"
)

// getCluster serves the nodes of the cluster, their egress sources and their status, as probity cluster shows them. A server
// without a cluster has no nodes.
func getCluster(c *call) error {
	if report := c.srv.deps.Operator.Cluster; report != nil {
		return c.SendJSON(httpd.StatusOK, report())
	}
	return c.SendJSON(httpd.StatusOK, fleet.ClusterReport{Nodes: []fleet.NodeReport{}})
}

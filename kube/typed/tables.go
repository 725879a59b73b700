package typed

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/kube"
)

// MostTable is how many bytes of JSON the data of a NodeTable may have: etcd takes objects of
// 1.5 MiB. Some 20,000 nodes with names of 40 characters.
const MostTable = 1_400_000

// TableRow is how many of these a node takes with its text.
func TableRow(node, text string) int { return len(node) + len(text) + len(`"":"",`) }

var tableVersion = schema.GroupVersion{Group: names.NodeTableGroup, Version: names.NodeTableVersion}

// NodeTables mirrors the NodeTables of a namespace: of each a map of its own, node -> text.
func NodeTables(c *kube.Client, namespace string, s Selection) *Mirror[map[string]string] {
	sample := &unstructured.Unstructured{}
	sample.SetGroupVersionKind(tableVersion.WithKind(names.NodeTableKind))
	of := c.Dynamic.Resource(tableVersion.WithResource(names.NodeTables)).Namespace(namespace)
	return newMirror(names.NodeTables, c.Dynamic, of, s, sample, tableData).by(c)
}

func tableData(u *unstructured.Unstructured) map[string]string {
	rows, _ := u.Object["data"].(map[string]any)
	data := make(map[string]string, len(rows))
	for node, v := range rows {
		if text, ok := v.(string); ok { // which the schema demands
			data[node] = text
		}
	}
	return data
}

// Table is what a NodeTable has now; an error of NotFound where it is not there, or its kind is
// not served.
func Table(ctx context.Context, c *kube.Client, namespace, name string) (map[string]string, error) {
	u, err := c.Dynamic.Resource(tableVersion.WithResource(names.NodeTables)).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read NodeTable %s/%s: %w", namespace, name, err)
	}
	return tableData(u), nil
}

// WriteTable has a NodeTable hold these data and no others (server-side apply: they are one
// value by its schema); it is made where it is not there.
func WriteTable(ctx context.Context, c *kube.Client, namespace, name, manager string, data map[string]string) error {
	raw, err := json.Marshal(map[string]any{
		"apiVersion": tableVersion.String(), "kind": names.NodeTableKind,
		"metadata": map[string]any{"name": name, "namespace": namespace}, "data": data,
	})
	if err == nil {
		force := true // of the answer nothing but metadata comes back: it may be large
		_, err = c.Metadata.Resource(tableVersion.WithResource(names.NodeTables)).Namespace(namespace).
			Patch(ctx, name, types.ApplyPatchType, raw, metav1.PatchOptions{FieldManager: manager, Force: &force})
	}
	if err != nil {
		return fmt.Errorf("write NodeTable %s/%s: %w", namespace, name, err)
	}
	return nil
}

package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Whoever writes a mistake into topologyKeys finds it in the Events of the
// Service, by the controller with the rights of deploy/.
func TestMistakenKeysAreAnEventOfTheService(t *testing.T) {
	controller(t)
	for name, annotation := range map[string]string{"bad-json": "topologyKeys: site", "bad-case": `topologykeys: '["site"]'`, "sound": `topologyKeys: '["site"]'`} {
		applied(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, annotations: {%s}}, spec: {ports: [{port: 80}]}}`, name, annotation), "service/"+name)
	}
	told := func(name string) (texts []string, err error) {
		list, err := c.Kube.CoreV1().Events("default").List(patient(t), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Service,involvedObject.name=" + name + ",reason=TopologyKeys",
		})
		if err == nil {
			for _, ev := range list.Items {
				texts = append(texts, ev.Message)
			}
		}
		return texts, err
	}
	for name, want := range map[string]string{"bad-json": "metadata.annotations[topologyKeys]: is no JSON array of strings", "bad-case": "metadata.annotations[topologykeys]: is not topologyKeys"} {
		wait.Eventually(t, func() error {
			texts, err := told(name)
			if err != nil || len(texts) != 1 || !strings.HasPrefix(texts[0], want) {
				return fmt.Errorf("%s: told %q, want %q: %w", name, texts, want, errors.Join(err))
			}
			return nil
		})
	}
	if texts, err := told("sound"); err != nil || len(texts) > 0 {
		t.Errorf("of a sound one was told %q, %v", texts, err)
	}
}

// A gridUniqKey that is mistyped leaves the Service of the grid as it is, and the workloads
// behind it, and is told by condition and Event, and by gridmesh grid list.
func TestAMistypedKeyTakesNothingAway(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	controller(t, "--removal-grace", "1s", "--removal-share", "1")
	const manifest = `{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: slip}, spec: {gridUniqKey: KEY, template: {selector: {app: slip}, ports: [{port: 80}]}}}`
	by := func(key string) func() error {
		return func() error {
			s, err := c.Kube.CoreV1().Services("default").Get(patient(t), "slip-svc", metav1.GetOptions{})
			if err == nil && s.Annotations["topologyKeys"] != `["`+key+`"]` {
				err = fmt.Errorf("the Service goes by %s, want %s", s.Annotations["topologyKeys"], key)
			}
			return err
		}
	}
	applied(t, strings.Replace(manifest, "KEY", "site", 1), "servicegrid/slip")
	wait.Eventually(t, by("site"))
	workloads := deploymentGrid("slip", "", "1")
	applied(t, workloads, "deploymentgrid/slip")
	allReady(t, "deploymentgrids", "slip", 2)
	must(t, c.Apply(strings.Replace(workloads, "gridUniqKey: site", "gridUniqKey: stie", 1)))
	must(t, c.Apply(strings.Replace(manifest, "KEY", "stie", 1)))
	const said, kept = "does not change its Service, which goes by site, for no node has the label stie; did you mean site?", "does not change its Deployments, which go by site, "
	wait.Eventually(t, func() error {
		st, err := statusOf(t, "servicegrids", "slip")
		if err != nil {
			return err
		}
		return errors.Join(hasCondition(st.Conditions, "Valid", metav1.ConditionFalse, said), hasEvent(t, "slip", "Refused", said))
	})
	must(t, by("site")())
	wait.Eventually(t, func() error {
		st, err := statusOf(t, "deploymentgrids", "slip")
		if err != nil {
			return err
		}
		return errors.Join(hasCondition(st.Conditions, "Valid", metav1.ConditionFalse, kept), hasEvent(t, "slip", "Refused", kept))
	})
	// A unit that is gone is removed within seconds here, which the other grid shows.
	applied(t, deploymentGrid("sure", "", "1"), "deploymentgrid/sure")
	allReady(t, "deploymentgrids", "sure", 2)
	label(t, "b-1", "")
	wait.Eventually(t, func() error {
		_, err := child("sure-south")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the child of a unit that is gone is not removed"), err)
	})
	for _, name := range []string{"slip-north", "slip-south"} {
		if _, err := child(name); err != nil {
			t.Error(err)
		}
	}
	if out := inspect(t, "grid", "list", "--lenient"); strings.Count(out, said) != 1 {
		t.Errorf("gridmesh grid list does not say so once:\n%s", out)
	}
	_, err := c.Kubectl("delete", "service/slip-svc")
	must(t, err)
	wait.Eventually(t, by("stie"))
}

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// facts are what a pod may ask about itself.
type facts struct {
	pod     *corev1.Pod
	ips     []string
	hostIPs []string
}

// field answers a fieldRef.
func (f facts) field(path string) (string, error) {
	if kind, key, ok := strings.Cut(path, "['"); ok {
		key = strings.TrimSuffix(key, "']")
		switch kind {
		case "metadata.labels":
			return f.pod.Labels[key], nil
		case "metadata.annotations":
			return f.pod.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return f.pod.Name, nil
	case "metadata.namespace":
		return f.pod.Namespace, nil
	case "metadata.uid":
		return string(f.pod.UID), nil
	case "spec.nodeName":
		return f.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return f.pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return f.ips[0], nil
	case "status.podIPs":
		return strings.Join(f.ips, ","), nil
	case "status.hostIP":
		return f.hostIPs[0], nil
	case "status.hostIPs":
		return strings.Join(f.hostIPs, ","), nil
	}
	return "", fmt.Errorf("fieldRef %s is not supported by the stand-in", path)
}

// environment is a container's, in order; $(VAR) refers to what came before.
func (k *Kubelet) environment(ctx context.Context, c *corev1.Container, f facts) ([]string, error) {
	values := map[string]string{}
	out := []string{"PATH=/app:/bin:/usr/local/bin:/usr/bin:/usr/sbin:/sbin", "HOSTNAME=" + hostname(f.pod)}
	set := func(name, value string) {
		values[name] = value
		out = slices.DeleteFunc(out, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		out = append(out, name+"="+value)
	}
	for _, e := range k.apiServer(ctx) {
		set(e[0], e[1])
	}
	for i := range c.Env {
		e := &c.Env[i]
		value := expand(e.Value, values)
		if e.ValueFrom != nil {
			var err error
			if value, err = k.valueFrom(ctx, f, e.ValueFrom); err != nil {
				return nil, fmt.Errorf("env %s: %w", e.Name, err)
			}
		}
		set(e.Name, value)
	}
	return out, nil
}

// apiServer is where containers find the API server. It is asked for once: a
// container must start again without a cloud.
func (k *Kubelet) apiServer(ctx context.Context) [][2]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.server == nil {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		s, err := k.kube.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		k.server = [][2]string{{"KUBERNETES_SERVICE_HOST", s.Spec.ClusterIP}, {"KUBERNETES_SERVICE_PORT", fmt.Sprint(s.Spec.Ports[0].Port)}}
	}
	return k.server
}

func (k *Kubelet) valueFrom(ctx context.Context, f facts, from *corev1.EnvVarSource) (string, error) {
	switch {
	case from.FieldRef != nil:
		return f.field(from.FieldRef.FieldPath)
	case from.ConfigMapKeyRef != nil:
		m, err := k.kube.CoreV1().ConfigMaps(f.pod.Namespace).Get(ctx, from.ConfigMapKeyRef.Name, metav1.GetOptions{})
		if err != nil {
			return "", missing(err, from.ConfigMapKeyRef.Optional)
		}
		return m.Data[from.ConfigMapKeyRef.Key], nil
	case from.SecretKeyRef != nil:
		s, err := k.kube.CoreV1().Secrets(f.pod.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{})
		if err != nil {
			return "", missing(err, from.SecretKeyRef.Optional)
		}
		return string(s.Data[from.SecretKeyRef.Key]), nil
	}
	return "", errors.New("its source is not supported by the stand-in")
}

// expand replaces $(NAME) by what is known; $$ is a literal dollar.
func expand(text string, values map[string]string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		switch {
		case !found:
			return b.String()
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			text = after[1:]
		case strings.HasPrefix(after, "("):
			name, rest, closed := strings.Cut(after[1:], ")")
			value, known := values[name]
			if !closed || !known {
				b.WriteByte('$')
				text = after
				continue
			}
			b.WriteString(value)
			text = rest
		default:
			b.WriteByte('$')
			text = after
		}
	}
}

func hostname(pod *corev1.Pod) string {
	switch {
	case pod.Spec.HostNetwork:
		return pod.Spec.NodeName
	case pod.Spec.Hostname != "":
		return pod.Spec.Hostname
	}
	return pod.Name
}

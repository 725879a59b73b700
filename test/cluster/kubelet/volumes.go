package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumes puts every volume of a pod on disk and returns name -> path.
func (k *Kubelet) volumes(ctx context.Context, pod *corev1.Pod, dir string, facts facts) (map[string]string, error) {
	paths := map[string]string{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		path := filepath.Join(dir, "volumes", v.Name)
		var err error
		switch {
		case v.HostPath != nil:
			if strings.HasPrefix(v.HostPath.Path, "/proc/") || strings.HasPrefix(v.HostPath.Path, "/sys/") {
				path = v.HostPath.Path // the kernel's, of the namespaces a process is in
				break
			}
			path = filepath.Join(k.cfg.Dir, "host", v.HostPath.Path)
			err = hostPath(path, v.HostPath)
		case v.EmptyDir != nil:
			err = os.MkdirAll(path, 0o777)
		default:
			err = k.fill(ctx, pod, v, path, facts)
		}
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		paths[v.Name] = path
	}
	return paths, nil
}

func hostPath(path string, h *corev1.HostPathVolumeSource) error {
	if h.Type != nil && *h.Type == corev1.HostPathFileOrCreate {
		return touch(path)
	}
	return os.MkdirAll(path, 0o755)
}

// fill writes volumes made of files.
func (k *Kubelet) fill(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, path string, facts facts) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	files := map[string][]byte{}
	var err error
	switch {
	case v.ConfigMap != nil:
		err = k.configMap(ctx, pod.Namespace, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional, files)
	case v.Secret != nil:
		err = k.secret(ctx, pod.Namespace, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional, files)
	case v.DownwardAPI != nil:
		err = downward(v.DownwardAPI.Items, facts, files)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			err = errors.Join(err, k.project(ctx, pod, &v.Projected.Sources[i], facts, files))
		}
	default:
		return errors.New("its kind is not supported by the stand-in")
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		file := filepath.Join(path, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kubelet) project(ctx context.Context, pod *corev1.Pod, s *corev1.VolumeProjection, facts facts, files map[string][]byte) error {
	switch {
	case s.ServiceAccountToken != nil:
		bound := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
		req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: s.ServiceAccountToken.ExpirationSeconds, BoundObjectRef: bound}}
		if s.ServiceAccountToken.Audience != "" {
			req.Spec.Audiences = []string{s.ServiceAccountToken.Audience}
		}
		got, err := k.kube.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, req, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		files[s.ServiceAccountToken.Path] = []byte(got.Status.Token)
		return nil
	case s.ConfigMap != nil:
		return k.configMap(ctx, pod.Namespace, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional, files)
	case s.Secret != nil:
		return k.secret(ctx, pod.Namespace, s.Secret.Name, s.Secret.Items, s.Secret.Optional, files)
	case s.DownwardAPI != nil:
		return downward(s.DownwardAPI.Items, facts, files)
	}
	return errors.New("a projected source is not supported by the stand-in")
}

func (k *Kubelet) configMap(ctx context.Context, namespace, name string, items []corev1.KeyToPath, optional *bool, files map[string][]byte) error {
	m, err := k.kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return missing(err, optional)
	}
	data := map[string][]byte{}
	for key, value := range m.Data {
		data[key] = []byte(value)
	}
	for key, value := range m.BinaryData {
		data[key] = value
	}
	return pick(data, items, files)
}

func (k *Kubelet) secret(ctx context.Context, namespace, name string, items []corev1.KeyToPath, optional *bool, files map[string][]byte) error {
	s, err := k.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return missing(err, optional)
	}
	return pick(s.Data, items, files)
}

func missing(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

func pick(data map[string][]byte, items []corev1.KeyToPath, files map[string][]byte) error {
	if len(items) == 0 {
		for key, value := range data {
			files[key] = value
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			return fmt.Errorf("has no key %s", item.Key)
		}
		files[item.Path] = value
	}
	return nil
}

func downward(items []corev1.DownwardAPIVolumeFile, facts facts, files map[string][]byte) error {
	for _, item := range items {
		if item.FieldRef == nil {
			return fmt.Errorf("%s: only fieldRef is supported by the stand-in", item.Path)
		}
		value, err := facts.field(item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		files[item.Path] = []byte(value)
	}
	return nil
}

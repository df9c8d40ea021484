// SPDX-License-Identifier: Apache-2.0

// Package standin runs Kuota in place of the manager that Kueue's integration suites start in their
// own process. The suites call the real set-up functions, which record here what they were asked to
// set up; Start writes that as a configuration file and runs `kuota controller` with it.
package standin

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
)

// Setup is what one manager was asked to run.
type Setup struct {
	Parts                      map[string]bool
	Configuration              *config.Configuration
	Transformations            []config.ResourceTransformation
	ExcludedPrefixes           []string
	FairSharing                *config.FairSharing
	AdmissionFairSharing       *config.AdmissionFairSharing
	QuotaCheckStrategy         config.QuotaCheckStrategy
	Frameworks                 map[string]bool
	UnreviewedPods             bool
	ManageJobsWithoutQueueName bool
	NamespaceSelector          labels.Selector
	WaitForPodsReady           bool
	LabelKeysToCopy            []string
	AnnotationsToCopy          []string
	ResourceMetrics            bool
	Dispatching                *config.MultiKueue
	ExternalFrameworks         []config.MultiKueueExternalFramework
	Namespace                  string
	RecoveryGrace              time.Duration // Of pods on unreachable nodes; 0 if they are not recovered.
}

var (
	mu         sync.Mutex
	beginning  sync.Mutex // Held from Begin to Start: one manager is set up at a time.
	setup      = newSetup()
	running    = map[*Process]bool{}
	idle       *Process // Stopped by a suite, but kept running because KUOTA_KEEP is set.
	metricsURL string
)

func newSetup() *Setup {
	return &Setup{Parts: map[string]bool{}, Frameworks: map[string]bool{}}
}

// Record lets a set-up function note what it was asked to do.
func Record(note func(*Setup)) {
	mu.Lock()
	defer mu.Unlock()
	note(setup)
}

// JobOptions notes the options of a job's reconciler or webhook.
func (s *Setup) JobOptions(
	withoutQueueName bool, namespaces labels.Selector, copied, annotations []string,
) {
	s.ManageJobsWithoutQueueName = s.ManageJobsWithoutQueueName || withoutQueueName
	if namespaces != nil {
		s.NamespaceSelector = namespaces
	}
	if len(copied) > 0 {
		s.LabelKeysToCopy = copied
	}
	if len(annotations) > 0 {
		s.AnnotationsToCopy = annotations
	}
}

// Webhook notes that a job kind gets a webhook, unless that accepts everything.
func Webhook(framework string, noop bool) {
	if noop {
		return
	}
	Record(func(s *Setup) {
		// A manager keeps the webhook that was set up first.
		if framework == "pod" && s.UnreviewedPods {
			return
		}
		s.Parts["webhooks"] = true
		s.Frameworks[framework] = true
	})
}

// Accept notes that objects of a kind get a webhook that accepts everything.
func Accept(kind any) {
	if _, isPod := kind.(*corev1.Pod); isPod {
		Record(func(s *Setup) { s.UnreviewedPods = true })
	}
}

// MultiKueue notes how work is dispatched to other clusters.
func (s *Setup) MultiKueue(
	namespace, origin, dispatcher string, gcInterval, workerLostTimeout time.Duration,
) {
	s.Namespace = namespace
	s.Dispatching = &config.MultiKueue{
		Origin:            &origin,
		DispatcherName:    &dispatcher,
		GCInterval:        &metav1.Duration{Duration: gcInterval},
		WorkerLostTimeout: &metav1.Duration{Duration: workerLostTimeout},
	}
}

// Begin forgets what an earlier manager was asked to run. Another one begins after Start.
func Begin() {
	beginning.Lock()
	mu.Lock()
	defer mu.Unlock()
	setup = newSetup()
}

// GatesChanged restarts every running Kuota, which reads its feature gates once.
func GatesChanged() error {
	mu.Lock()
	defer mu.Unlock()
	for each := range running {
		if changedGates() == each.gates {
			continue
		}
		if err := each.restart(); err != nil {
			return err
		}
	}
	return nil
}

// Process is a running Kuota.
type Process struct {
	asked    string // What the suite asked for, which another manager may ask for again.
	folder   string
	url      string // Of its metrics.
	parts    string
	gates    string
	implied  map[string]bool // Gates that stand for what a suite sets up or leaves out.
	recovery time.Duration   // The grace of failure recovery, which no configuration can change.
	command  *exec.Cmd
	log      *os.File
	done     chan error
}

// Start runs Kuota with everything recorded since Begin.
func Start(cfg *rest.Config, host string, port int, certificates string) (*Process, error) {
	defer beginning.Unlock()
	mu.Lock()
	defer mu.Unlock()
	asked, err := yaml.Marshal(configuration(host, port, certificates, 0))
	if err != nil {
		return nil, err
	}
	description := fmt.Sprint(cfg.Host, parts(), impliedGates(), setup.RecoveryGrace, string(asked))
	if kept := idle; kept != nil {
		idle = nil
		if kept.asked == description && kept.gates == changedGates() {
			running[kept] = true
			return kept, nil
		}
		if err := kept.end(); err != nil {
			return nil, err
		}
	}
	folder, err := os.MkdirTemp("", "kuota-suite-")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(connection(cfg), kubeconfig); err != nil {
		return nil, err
	}
	metricsPort, err := freePort()
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(configuration(host, port, certificates, metricsPort))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "configuration.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	metricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", metricsPort)
	return run(folder, description, metricsURL)
}

// impliedGates are gates that a suite need not set, because it sets up controllers one by one.
func impliedGates() map[string]bool {
	found := map[string]bool{}
	if setup.Parts["jobs"] && !setup.WaitForPodsReady {
		// Its reconcilers do not write PodsReady, which a file cannot say.
		found["DisableWaitForPodsReady"] = true
	}
	if setup.Frameworks["sparkoperator.k8s.io/sparkapplication"] {
		found["SparkApplicationIntegration"] = true
	}
	if setup.RecoveryGrace > 0 {
		found["FailureRecoveryPolicy"] = true
	}
	alone := !setup.Parts["scheduler"] && len(setup.Frameworks) == 0
	if setup.Parts["core"] && alone && setup.Dispatching == nil {
		// Nothing but the suite writes the status of MultiKueue's AdmissionChecks.
		found["MultiKueue"] = false
	}
	return found
}

func run(folder, asked, url string) (*Process, error) {
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, err
	}
	process := &Process{
		asked: asked, folder: folder, parts: parts(), implied: impliedGates(), log: log,
		recovery: setup.RecoveryGrace, url: url,
	}
	if err := process.start(); err != nil {
		return nil, err
	}
	running[process] = true
	return process, nil
}

func (p *Process) start() error {
	p.gates = changedGates()
	arguments := []string{
		"controller", "--config", filepath.Join(p.folder, "configuration.yaml"), "--kubeconfig",
		filepath.Join(p.folder, "kubeconfig"), "--plain-metrics", "--parts", p.parts, "--v", "3",
	}
	gates := p.gates
	for gate, value := range p.implied {
		if !strings.Contains(","+gates, ","+gate+"=") {
			gates = strings.TrimPrefix(fmt.Sprintf("%s,%s=%t", gates, gate, value), ",")
		}
	}
	if gates != "" {
		arguments = append(arguments, "--feature-gates", gates)
	}
	p.command = p.program(arguments)
	p.command.Stdout, p.command.Stderr = p.log, p.log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "standin: %v, log %s\n", arguments, p.log.Name())
	done, command := make(chan error, 1), p.command
	p.done = done
	go func() {
		done <- command.Wait()
		close(done) // Later receivers do not wait.
	}()
	return p.ready()
}

// program is the command of Kuota. A suite may change the grace of failure recovery, which Kuota
// takes from a constant.
func (p *Process) program(arguments []string) *exec.Cmd {
	program := os.Getenv("KUOTA")
	if p.recovery == 0 {
		return exec.Command(program, arguments...)
	}
	script := fmt.Sprintf(
		"import sys; from kuota.bridge import recovery; recovery.GRACE_S = %f; "+
			"from kuota.cli.main import main; sys.argv[0] = 'kuota'; sys.exit(main())",
		p.recovery.Seconds(),
	)
	python := filepath.Join(filepath.Dir(program), "python")
	return exec.Command(python, append([]string{"-c", script}, arguments...)...)
}

func (p *Process) ready() error {
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-p.done:
			text, _ := os.ReadFile(p.log.Name())
			return fmt.Errorf("kuota ended: %w\n%s", err, text)
		default:
		}
		if answer, err := http.Get(p.url); err == nil {
			answer.Body.Close()
			return nil
		}
	}
	return fmt.Errorf("kuota does not become ready; see %s", p.log.Name())
}

func (p *Process) restart() error {
	if err := p.end(); err != nil {
		return err
	}
	return p.start()
}

// Stop ends the process as a cluster would.
func (p *Process) Stop() error {
	mu.Lock()
	defer mu.Unlock()
	delete(running, p)
	if os.Getenv("KUOTA_KEEP") != "" {
		idle = p
		return nil
	}
	return p.end()
}

func (p *Process) end() error {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(20 * time.Second):
		_ = p.command.Process.Kill()
		return fmt.Errorf("kuota does not stop; see %s", p.log.Name())
	}
}

// Metrics is what Kuota serves.
func Metrics() (string, error) {
	mu.Lock()
	url := metricsURL
	mu.Unlock()
	answer, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

func parts() string {
	names := []string{}
	for name := range setup.Parts {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, ",")
}

func gates() map[string]bool {
	all := map[string]bool{}
	for name := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		all[string(name)] = utilfeature.DefaultFeatureGate.Enabled(name)
	}
	return all
}

// changedGates lists the gates whose value is not the default, as a flag takes them.
func changedGates() string {
	changed := []string{}
	now := gates()
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if strings.HasPrefix(string(name), "All") {
			continue
		}
		if spec.Default != now[string(name)] {
			changed = append(changed, fmt.Sprintf("%s=%t", name, now[string(name)]))
		}
	}
	sort.Strings(changed)
	return strings.Join(changed, ",")
}

func connection(cfg *rest.Config) clientcmdapi.Config {
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"env": {Server: cfg.Host, CertificateAuthorityData: cfg.CAData},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			"admin": {
				ClientCertificateData: cfg.CertData,
				ClientKeyData:         cfg.KeyData,
				Token:                 cfg.BearerToken,
			},
		},
		Contexts:       map[string]*clientcmdapi.Context{"env": {Cluster: "env", AuthInfo: "admin"}},
		CurrentContext: "env",
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

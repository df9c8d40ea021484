// SPDX-License-Identifier: Apache-2.0

// Package testutil takes the place of component-base's package of that name in Kueue's integration
// suites: it reads a series from Kuota's metrics instead of from this process.
package testutil

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sigs.k8s.io/kueue/pkg/util/standin"
)

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func series(metric any) (*dto.Metric, error) {
	local, ok := metric.(prometheus.Metric)
	if !ok {
		return nil, fmt.Errorf("%T is not a metric", metric)
	}
	var wanted dto.Metric
	if err := local.Write(&wanted); err != nil {
		return nil, err
	}
	name := fqName.FindStringSubmatch(local.Desc().String())[1]
	text, err := standin.Metrics()
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if family := families[name]; family != nil {
		for _, each := range family.Metric {
			if labels(each) == labels(&wanted) {
				return each, nil
			}
		}
	}
	return nil, nil
}

func labels(metric *dto.Metric) string {
	pairs := map[string]string{}
	for _, each := range metric.Label {
		pairs[each.GetName()] = each.GetValue()
	}
	return fmt.Sprint(pairs)
}

// GetGaugeMetricValue is the value that Kuota reports, 0 where it has no such series.
func GetGaugeMetricValue(metric any) (float64, error) {
	found, err := series(metric)
	return found.GetGauge().GetValue(), err
}

// GetCounterMetricValue is the value that Kuota reports, 0 where it has no such series.
func GetCounterMetricValue(metric any) (float64, error) {
	found, err := series(metric)
	return found.GetCounter().GetValue(), err
}

// GetHistogramMetricCount is the number of samples that Kuota reports.
func GetHistogramMetricCount(metric any) (uint64, error) {
	found, err := series(metric)
	return found.GetHistogram().GetSampleCount(), err
}

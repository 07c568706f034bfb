// Command cel-go writes what cel-go, configured as in kube-apiserver, says of random expressions: one JSON object per line with the
// expression and its type errors, or its type and, if it is a boolean, an integer or a text, its value. host/cel/tests/recorded.rs compares.
//
//	go run . > ../recorded.jsonl
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/environment"
)

const (
	seed  = 1
	count = 1500
)

// The parts of expressions. The variables are those of main.
var (
	operands = strings.Split("count|tags|self|object|self.a|1|1u|1.0|'text'|b'x'|null|true|[1]|[]|{'a': 1}|{}|duration('90s')|"+
		"timestamp('2026-01-02T03:04:05Z')|optional.of(1)|quantity('1Gi')|ip('1.2.3.4')|tags[0]|count + 1|self.?a|type(1)|int|object.b|"+
		"nope|optional.none()|duration('1y')", "|")
	operators = strings.Split("== != < <= > >= + - * / % in && ||", " ")
	methods   = strings.Split("size() lowerAscii() trim() sum() min() isSorted() distinct() reverse() sort() flatten() getHours() "+
		"getFullYear() value() hasValue() first() join() isInteger() family() nope() a ?a unwrapOpt()", " ")
	calls = strings.Split("contains(%s)|startsWith(%s)|matches(%s)|indexOf(%s)|split(%s)|join(%s)|charAt(%s)|substring(%s)|find(%s)|"+
		"slice(%s, 2)|add(%s)|isGreaterThan(%s)|orValue(%s)|or(%s)|replace(%s, 'z')|substring(1, %s)|split(',', %s)", "|")
	functions = strings.Split("size string int double uint bool bytes type dyn duration timestamp isQuantity quantity isIP isURL "+
		"strings.quote base64.encode isSemver sign nope ! -", " ")
	macros = strings.Split("all(x,|exists(x,|exists_one(x,|map(x,|filter(x,|all(i, x,|existsOne(i, x,|transformList(i, x,|"+
		"transformMap(i, x,|optMap(x,|optFlatMap(x,|sortBy(x,", "|")
)

func pick(random *rand.Rand, from []string) string { return from[random.Intn(len(from))] }

func expression(random *rand.Rand, depth int) string {
	if depth == 0 {
		return pick(random, operands)
	}
	part := func() string { return expression(random, depth-1) }
	switch kind := random.Intn(100); {
	case kind < 30:
		return fmt.Sprintf("(%s %s %s)", part(), pick(random, operators), part())
	case kind < 50:
		return part() + "." + pick(random, methods)
	case kind < 65:
		return part() + "." + fmt.Sprintf(pick(random, calls), part())
	case kind < 80:
		return pick(random, functions) + "(" + part() + ")"
	case kind < 85:
		return part() + pick(random, []string{"[", "[?"}) + part() + "]"
	case kind < 89:
		return fmt.Sprintf("(%s ? %s : %s)", part(), part(), part())
	case kind < 92:
		return fmt.Sprintf("[%s, %s]", part(), part())
	case kind < 94:
		return fmt.Sprintf("{%s: %s}", part(), part())
	default:
		body := pick(random, []string{"x", "x " + pick(random, operators) + " " + pick(random, operands), part()})
		return fmt.Sprintf("%s.%s %s)", part(), pick(random, macros), body)
	}
}

// wellTyped returns expressions without type errors: each list, changed by each macro, in each question about it, and conversions.
func wellTyped() (all []string) {
	lists := []string{"[3, 1, 2]", "tags.map(t, size(t) + count)", "[count, 1, 1]", "[1, 2, 3].filter(x, x > 5)"}
	macros := []string{"sortBy(x, x)", "sortBy(x, -x)", "sortBy(x, string(x))", "transformList(i, x, x * i)", "transformList(i, x, i > 0, x)",
		"map(x, x > 1, x + 1)"}
	questions := []string{"size()", "sum()", "map(x, string(x)).join('-')", "all(i, x, x > i)", "exists(i, x, i == x)", "existsOne(i, x, x == 1)",
		"exists_one(x, x == 1)", "transformMap(i, x, x)[?1].orValue(7)", "transformMap(i, x, x > 1, x).size()",
		"transformMapEntry(i, x, {i: x + 1})[?0].optMap(x, x * 2).orValue(-1)", "first().optMap(x, x + 1).orValue(0)",
		"last().optFlatMap(x, optional.of(x)).hasValue()", "isSorted()", "distinct().size()", "reverse()[?0].orValue(5)"}
	for _, list := range lists {
		for _, macro := range macros {
			for _, question := range questions {
				all = append(all, list+"."+macro+"."+question)
			}
		}
	}
	values := []string{"1", "-7", "3u", "1.0", "2.5", "1e6", "123456789.0", "0.00001", "1e21", "'5'", "'text'", "'true'", "'1.5'", "true", "b'abc'",
		"duration('90s')", "duration('1.5h')", "duration('1ns')", "timestamp('2026-01-02T03:04:05.120Z')", "timestamp('2026-01-02T03:04:05+02:00')"}
	for _, value := range values {
		for _, function := range []string{"string(dyn(%s))", "int(dyn(%s))", "uint(dyn(%s))", "bool(dyn(%s))", "string(double(dyn(%s)))", "string(bytes(dyn(%s)))",
			"string(type(dyn(%s)) == int)", "'%%s'.format([dyn(%s)])", "dyn(%s) in [dyn(1), dyn('5'), dyn(true)]", "{1: 'a'}[?dyn(%s)].orValue('none')"} {
			all = append(all, fmt.Sprintf(function, value))
		}
	}
	return all
}

// failing returns expressions whose selections and indexes fail, with those that do not: each kind of value by each kind of index.
func failing() (all []string) {
	values := []string{"null", "'text'", "1", "2u", "1.5", "true", "b'x'", "[1, 2]", "{'a': 1}", "{1: 2}", "{}", "duration('1s')", "{'a': null}.a", "{'b': [1]}.b"}
	for _, value := range values {
		for _, use := range []string{".a", ".x", ".x.y", "['x']", "[0]", "[7]", "[-1]", "[3u]", "[1.5]", "[true]", "[dyn('x')]", "[dyn(5)]", ".all(x, true)",
			".map(x, x).size()", ".exists(i, x, true)", ".?x.hasValue()", "[?0].hasValue()", "[?'x'].hasValue()"} {
			all = append(all, fmt.Sprintf("dyn(%s)%s", value, use))
		}
		for _, call := range []string{"has(dyn(%s).a)", "has(dyn(%s).x)", "!dyn(%s).x", "dyn(%s) && true", "dyn(%s) ? 1 : 2", "'x' in dyn(%s)", "dyn(%s).x || true",
			"has({'a': dyn(%s)}.a.b)", "{'a': dyn(%s)}.a.b", "optional.of(dyn(%s)).x.hasValue()"} {
			all = append(all, fmt.Sprintf(call, value))
		}
	}
	for _, function := range []string{"int", "uint", "double", "bool", "duration", "timestamp"} {
		all = append(all, function+"(self.a)")
	}
	return all
}

// Record is a line of the output.
type Record struct {
	Expression string `json:"expression"`
	// Errors are the type errors, each as LINE:COLUMN and the text.
	Errors []string `json:"errors,omitempty"`
	// Type is that of the value.
	Type string `json:"type,omitempty"`
	// Value is the value's text; empty if it is of another type than a boolean, an integer or a text, or there is none.
	Value string `json:"value,omitempty"`
	// Fails is whether the evaluation fails.
	Fails bool `json:"fails,omitempty"`
	// Error is the message of the failure, of the expressions of failing.
	Error string `json:"error,omitempty"`
}

// Unknown types have a number that depends on cel-go's steps.
var unknown = regexp.MustCompile(`_var\d+`)

func describe(env *cel.Env, text string) (record *Record) {
	defer func() {
		if recover() != nil {
			record = nil // A defect of this version of cel-go.
		}
	}()
	record = &Record{Expression: text}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		for _, issue := range issues.Errors() {
			message := unknown.ReplaceAllString(issue.Message, "dyn")
			record.Errors = append(record.Errors, fmt.Sprintf("%d:%d: %s", issue.Location.Line(), issue.Location.Column()+1, message))
		}
		return record
	}
	record.Type = unknown.ReplaceAllString(ast.OutputType().String(), "dyn")
	program, err := env.Program(ast)
	if err != nil {
		record.Fails = true
		return record
	}
	value, _, err := program.Eval(map[string]any{
		"object": map[string]any{"b": int64(2)}, "self": map[string]any{"a": "text"}, "tags": []string{"a", "b"}, "count": 3,
	})
	if err != nil {
		record.Fails, record.Error = true, err.Error()
		return record
	}
	record.Value = valueText(value)
	return record
}

func valueText(value ref.Val) string {
	switch value := value.(type) {
	case types.Bool, types.Int, types.Uint, types.String:
		return fmt.Sprint(value.Value())
	}
	return ""
}

func main() {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: environment.DefaultCompatibilityVersion(),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType), cel.Variable("self", cel.MapType(cel.StringType, cel.DynType)),
			cel.Variable("tags", cel.ListType(cel.StringType)), cel.Variable("count", cel.IntType),
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "create the environment:", err)
		os.Exit(1)
	}
	random, out := rand.New(rand.NewSource(seed)), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	seen, texts := map[string]bool{}, wellTyped()
	for len(seen) < count {
		text := expression(random, []int{1, 2, 2, 3}[random.Intn(4)])
		if !seen[text] && len(text) <= 400 {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	withMessages := len(texts)
	for index, text := range append(texts, failing()...) {
		if record := describe(set.StoredExpressionsEnv(), text); record != nil {
			if index < withMessages {
				record.Error = ""
			}
			if err := out.Encode(record); err != nil {
				fmt.Fprintln(os.Stderr, "write:", err)
				os.Exit(1)
			}
		}
	}
}

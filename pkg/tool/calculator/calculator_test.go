package calculator_test

import (
	"math"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/tool/calculator"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
)

func TestCalculator(t *testing.T) {
	t.Parallel()
	tooltest.Run(t, calculator.New(), tooltest.Cases{
		Good: []string{`{"expression":"6*7"}`, `{"expression":"-1"}`},
		Bad: []string{
			`{}`, `{"expression":""}`, `{"expression":42}`, `{"expression":"6*"}`, `{"expression":"1/0"}`,
			`{"expression":"` + strings.Repeat("1", 1001) + `"}`,
		},
	})
}

func TestEval(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, expression, want string }{
		{"multiplies", "6*7", "42"},
		{"multiplies before it adds", "2 + 3 * 4", "14"},
		{"goes from the left", "10 - 4 - 3", "3"},
		{"divides from the left", "100 / 10 / 2", "5"},
		{"obeys parentheses", "(2 + 3) * 4", "20"},
		{"takes powers from the right", "2^3^2", "512"},
		{"takes powers before signs", "-2^2", "-4"},
		{"allows a sign in the exponent", "2^-1", "0.5"},
		{"allows signs in a row", "--3 - -+2", "5"},
		{"takes remainders with the sign of the left", "-7 % 3", "-1"},
		{"reads decimals", ".5 + 1.", "1.5"},
		{"reads exponents", "1e3 + 2.5E-1", "1000.25"},
		{"hides binary noise", "0.1 + 0.2", "0.3"},
		{"writes no minus zero", "-0 * 5", "0"},
		{"writes large whole numbers out", "2^49", "562949953421312"},
		{"writes larger ones in short", "2^100", "1.26765060022823e+30"},
		{"knows roots", "sqrt(2) ^ 2", "2"},
		{"knows absolute values", "abs(-3.5)", "3.5"},
		{"knows the least", "min(3, 1, 2)", "1"},
		{"knows the greatest", "max(3, 1+9, 2)", "10"},
		{"rounds", "round(2.5)", "3"},
		{"rounds to decimals", "round(3.14159, 2)", "3.14"},
		{"leaves alone what has no such decimals", "round(1e300, 15)", "1e+300"},
		{"takes space as it comes", " \t1\n+ 1 ", "2"},
		{"nests", strings.Repeat("(", 50) + "1" + strings.Repeat(")", 50), "1"},
		{"nests functions", "max(min(1, 2), abs(-4))", "4"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			value, err := calculator.Eval(test.expression)
			if err != nil || calculator.Format(value) != test.want {
				t.Errorf("%s: got %s, %v, want %s", test.expression, calculator.Format(value), err, test.want)
			}
		})
	}
}

func TestEvalErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, expression, want string }{
		{"nothing", "", "it ends where a number"},
		{"an operator at the end", "1 +", "it ends where a number"},
		{"two numbers", "1 2", `"2" at character 3, where an operator`},
		{"an open parenthesis", "(1", "it ends where ) is expected"},
		{"a closing parenthesis too many", "1)", `")" at character 2`},
		{"empty parentheses", "()", `")" at character 2`},
		{"a strange character", "1 § 2", `"§" at character 3`},
		{"a strange character after a strange one", "é", `"é" at character 1`},
		{"a list without a function", "(1, 2)", "a comma belongs only between"},
		{"a name alone", "x", `"x" is not a number`},
		{"an unknown function", "exec(1)", `there is no function "exec"; the functions are sqrt`},
		{"too many arguments", "sqrt(1, 2)", "sqrt takes one argument, not 2"},
		{"too few arguments", "min()", `")" at character 5`},
		{"an invalid number of decimals", "round(1, 0.5)", "whole number of decimals"},
		{"too many arguments for round", "round(1, 2, 3)", "one or two"},
		{"division by zero", "1 / (2 - 2)", "division by zero"},
		{"remainder by zero", "1 % 0", "division by zero"},
		{"zero to a negative power", "0 ^ -1", "division by zero"},
		{"the root of a negative number", "sqrt(-1)", "not real"},
		{"another root of a negative number", "(-8) ^ 0.5", "not real"},
		{"overflow", "9^9^9^9", "too large"},
		{"an overflowing literal", "1e999", "too large"},
		{"two points", "1.2.3", `"." at character 4`},
		{"nesting", strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100), "more than 64 deep"},
		{"signs without end", strings.Repeat("-", 100) + "1", "more than 64 deep"},
		{"length", strings.Repeat("1+", 600) + "1", "longer than 1000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			value, err := calculator.Eval(test.expression)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want an error that says %q", value, err, test.want)
			}
		})
	}
}

// FuzzEval holds that every text gives a finite number or an error, and that the written result reads back as a number
// close by.
func FuzzEval(f *testing.F) {
	for _, s := range []string{"6*7", "-2^2", "round(3.14159, 2)", "((1", "1e", "min(1,2", "§", "9^9^9", "1e308*10", "5%.3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		value, err := calculator.Eval(expression)
		if err != nil {
			return
		}
		if math.IsNaN(value) || math.IsInf(value, 0) {
			t.Fatalf("Eval(%q): got %v, want a number", expression, value)
		}
		again, err := calculator.Eval(calculator.Format(value))
		if err != nil || math.Abs(again-value) > math.Abs(value)*1e-14 {
			t.Errorf("Eval(%q) = %v, written %s, reads back %v, %v", expression, value, calculator.Format(value), again, err)
		}
	})
}

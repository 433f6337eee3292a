package calculator

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

const functionNames = "sqrt, abs, min, max, round"

// apply works out one operator. Its result is always a finite number.
func apply(operator byte, left, right float64) (float64, error) {
	switch operator {
	case '+':
		return finite(left + right)
	case '-':
		return finite(left - right)
	case '*':
		return finite(left * right)
	case '/':
		if right == 0 {
			return 0, errors.New("division by zero")
		}
		return finite(left / right)
	case '%':
		if right == 0 {
			return 0, errors.New("division by zero")
		}
		return math.Mod(left, right), nil
	default:
		return raise(left, right)
	}
}

func raise(base, exponent float64) (float64, error) {
	if base == 0 && exponent < 0 {
		return 0, errors.New("division by zero")
	}
	value := math.Pow(base, exponent)
	if math.IsNaN(value) {
		return 0, errors.New("a root of a negative number is not real")
	}
	return finite(value)
}

func call(name string, values []float64) (float64, error) {
	switch name {
	case "min":
		return slices.Min(values), nil
	case "max":
		return slices.Max(values), nil
	case "round":
		return round(values)
	case "sqrt", "abs":
	default:
		return 0, fmt.Errorf("there is no function %.40q; the functions are %s", name, functionNames)
	}
	if len(values) != 1 {
		return 0, fmt.Errorf("%s takes one argument, not %d", name, len(values))
	}
	if name == "abs" {
		return math.Abs(values[0]), nil
	}
	if values[0] < 0 {
		return 0, errors.New("a root of a negative number is not real")
	}
	return math.Sqrt(values[0]), nil
}

// round rounds half away from zero, to a whole number or to a number of decimals.
func round(values []float64) (float64, error) {
	if len(values) == 1 {
		return math.Round(values[0]), nil
	}
	if len(values) != 2 {
		return 0, fmt.Errorf("round takes one or two arguments, not %d", len(values))
	}
	value, digits := values[0], values[1]
	if digits != math.Trunc(digits) || digits < 0 || digits > 15 {
		return 0, errors.New("round takes a whole number of decimals between 0 and 15")
	}
	scale := math.Pow(10, digits)
	scaled := value * scale
	if math.IsInf(scaled, 0) || math.Abs(scaled) > 1<<53 {
		return value, nil // so large that it has no such decimals
	}
	return math.Round(scaled) / scale, nil
}

func finite(value float64) (float64, error) {
	if math.IsInf(value, 0) || math.IsNaN(value) {
		return 0, errors.New("the result is too large")
	}
	return value, nil
}

package calculator

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	maxLength = 1000 // bytes of an expression
	maxDepth  = 64   // of nesting
)

// Eval works out an expression of this grammar, in float64:
//
//	sum      = product { ("+" | "-") product }
//	product  = signed { ("*" | "/" | "%") signed }
//	signed   = power | ("+" | "-") signed
//	power    = operand [ "^" signed ]
//	operand  = number | "(" sum ")" | name "(" sum { "," sum } ")"
//
// So -2^2 is -4, 2^3^2 is 512, and % is the remainder with the sign of the left side. An error says what is wrong and at
// which character.
func Eval(expression string) (float64, error) {
	if len(expression) > maxLength {
		return 0, fmt.Errorf("the expression is longer than %d characters", maxLength)
	}
	p := parser{text: expression}
	value, err := p.sum()
	if err != nil {
		return 0, err
	}
	if p.peek() != 0 {
		return 0, p.unexpected("an operator")
	}
	return value, nil
}

// Format writes a value with at most 15 significant digits, so that 0.1+0.2 reads 0.3.
func Format(value float64) string {
	if value == math.Trunc(value) && math.Abs(value) < 1e15 {
		return strconv.FormatFloat(value+0, 'f', 0, 64) // + 0 turns -0 into 0
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 15, 64), 64)
	if err != nil {
		short = value // rounding went over the largest float64
	}
	return strconv.FormatFloat(short, 'g', -1, 64)
}

// parser evaluates while it reads.
type parser struct {
	text  string
	at    int
	depth int
}

// peek skips space and returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// take consumes the next byte if it is one of set.
func (p *parser) take(set string) (byte, bool) {
	next := p.peek()
	if next == 0 || strings.IndexByte(set, next) < 0 {
		return 0, false
	}
	p.at++
	return next, true
}

func (p *parser) unexpected(want string) error {
	if p.peek() == 0 {
		return fmt.Errorf("it ends where %s is expected", want)
	}
	rest := []rune(p.text[p.at:])
	return fmt.Errorf("%q at character %d, where %s is expected", string(rest[0]), len([]rune(p.text[:p.at]))+1, want)
}

func (p *parser) sum() (float64, error) {
	return p.chain("+-", p.product)
}

func (p *parser) product() (float64, error) {
	return p.chain("*/%", p.signed)
}

// chain evaluates operands joined by operators of one rank, from the left.
func (p *parser) chain(operators string, operand func() (float64, error)) (float64, error) {
	left, err := operand()
	for err == nil {
		operator, ok := p.take(operators)
		if !ok {
			return left, nil
		}
		var right float64
		if right, err = operand(); err == nil {
			left, err = apply(operator, left, right)
		}
	}
	return 0, err
}

func (p *parser) signed() (float64, error) {
	if err := p.enter(); err != nil {
		return 0, err
	}
	defer p.leave()
	sign, ok := p.take("+-")
	if !ok {
		return p.power()
	}
	value, err := p.signed()
	if sign == '-' {
		value = -value
	}
	return value, err
}

func (p *parser) power() (float64, error) {
	base, err := p.operand()
	if err != nil {
		return 0, err
	}
	if _, ok := p.take("^"); !ok {
		return base, nil
	}
	exponent, err := p.signed()
	if err != nil {
		return 0, err
	}
	return apply('^', base, exponent)
}

func (p *parser) operand() (float64, error) {
	switch next := p.peek(); {
	case next == '(':
		values, err := p.list()
		if err != nil {
			return 0, err
		}
		if len(values) != 1 {
			return 0, errors.New("a comma belongs only between the arguments of a function")
		}
		return values[0], nil
	case isDigit(next) || next == '.':
		return p.number()
	case isLetter(next):
		return p.function()
	default:
		return 0, p.unexpected("a number, a function or (")
	}
}

// list reads "(" sum { "," sum } ")".
func (p *parser) list() ([]float64, error) {
	if _, ok := p.take("("); !ok {
		return nil, p.unexpected("(")
	}
	var values []float64
	for {
		value, err := p.sum()
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		end, ok := p.take(",)")
		if !ok {
			return nil, p.unexpected(")")
		}
		if end == ')' {
			return values, nil
		}
	}
}

func (p *parser) number() (float64, error) {
	start := p.at
	p.skip(isDigit)
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		p.skip(isDigit)
	}
	p.exponent()
	text := p.text[start:p.at]
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a number, or too large", text)
	}
	return value, nil
}

// exponent consumes what follows a number as in 1e9 or 2.5E-3, if anything does.
func (p *parser) exponent() {
	end := p.at
	if end == len(p.text) || p.text[end]|0x20 != 'e' {
		return
	}
	end++
	if end < len(p.text) && (p.text[end] == '+' || p.text[end] == '-') {
		end++
	}
	if end < len(p.text) && isDigit(p.text[end]) {
		p.at = end
		p.skip(isDigit)
	}
}

func (p *parser) skip(is func(byte) bool) {
	for p.at < len(p.text) && is(p.text[p.at]) {
		p.at++
	}
}

func (p *parser) function() (float64, error) {
	start := p.at
	p.skip(isLetter)
	name := p.text[start:p.at]
	if p.peek() != '(' {
		return 0, fmt.Errorf("%.40q is not a number; only functions have names: %s", name, functionNames)
	}
	values, err := p.list()
	if err != nil {
		return 0, err
	}
	return call(name, values)
}

func (p *parser) enter() error {
	p.depth++
	if p.depth > maxDepth {
		return fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

import sys


def text():
    return sys.stdin.read()

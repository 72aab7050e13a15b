"""An evaluator of your own: gets the invocation (a dictionary), returns a verdict."""


def judge(invocation):
    """No tool is called before the user has asked for anything."""
    asked = bool(invocation["user_input"])
    calls = len(invocation["tool_calls"])
    return {"verdict": "pass" if asked or not calls else "fail", "explanation": f"{calls} tool calls"}

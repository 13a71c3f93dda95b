import json, os
from openai import OpenAI
client = OpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="unused")
messages=[{'role':'user','content':'Simplify 12/18'}]
functions=[dict(name='gcd',description='Greatest common divisor',parameters={'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'integer'}}})]
def gcd(a,b):
    while b: a,b=b,a%b
    return a
done=False
while not done:
    completion=client.chat.completions.create(model='m',messages=messages,functions=functions)
    for choice in completion.choices:
        if choice.message.function_call:
            args=json.loads(choice.message.function_call.arguments)
            messages.append(choice.message); messages.append({'role':'function','name':choice.message.function_call.name,'content':str(gcd(**args))})
        else:
            print(choice.message.content); done=True
